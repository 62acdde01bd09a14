#include "simulator/expect_file.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include "isa/error.h"
#include "isa/read_file.h"

namespace atalla {

namespace {

// Python's width counts the sign, so a negative key has seven digits.
std::string key_text(int64_t key) {
    return key < 0 ? fmt::format("-{:07X}", 0 - static_cast<uint64_t>(key)) : fmt::format("{:08X}", key);
}

class Reader {
public:
    explicit Reader(const std::string &name) : name_(name) {}

    void line(const std::string &text) {
        number_++;
        std::istringstream words(text);
        std::string kind;
        if (!(words >> kind)) {
            return;
        }
        if (kind == "packets") {
            packets(words);
        } else if (kind == "x") {
            scalar(file_.x, words, 256);
        } else if (kind == "m") {
            scalar(file_.m, words, 16);
        } else if (kind == "v") {
            vector(words);
        } else if (kind == "d") {
            data(words);
        } else {
            fail(fmt::format("a row starts with x, m, v, d or packets, not '{}'", kind));
        }
        if (std::string rest; words >> rest) {
            fail(fmt::format("'{}' after the end of the row", rest));
        }
    }
    ExpectFile take() { return std::move(file_); }

private:
    [[noreturn]] void fail(const std::string &what) const { throw Error(fmt::format("{}:{}: {}", name_, number_, what)); }

    int64_t integer(std::istream &words, int base) const {
        std::string word;
        if (!(words >> word)) {
            fail("the row ends too early");
        }
        int64_t value = 0;
        const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value, base);
        if (error != std::errc() || end != word.data() + word.size()) {
            fail(fmt::format("'{}' is not a number", word));
        }
        return value;
    }
    uint32_t word32(std::istream &words) const {
        const int64_t value = integer(words, 16);
        if (value < 0 || value > 0xFFFFFFFF) {
            fail(fmt::format("{:X} does not fit 32 bits", value));
        }
        return static_cast<uint32_t>(value);
    }
    int number(std::istream &words, int count) const {
        const int64_t value = integer(words, 10);
        if (value < 0 || value >= count) {
            fail(fmt::format("register number {} is not in 0..{}", value, count - 1));
        }
        return static_cast<int>(value);
    }
    void scalar(std::map<int, uint32_t> &registers, std::istream &words, int count) const {
        const int which = number(words, count);
        registers[which] = word32(words);
    }
    void vector(std::istream &words) {
        std::array<uint32_t, lanes> &lane_words = file_.v[number(words, 256)];
        for (uint32_t &lane : lane_words) {
            lane = word32(words);
        }
    }
    void packets(std::istream &words) {
        const int64_t value = integer(words, 10);
        if (value < 0) {
            fail("the number of packets is negative");
        }
        file_.packets = static_cast<uint64_t>(value);
    }
    void data(std::istream &words) {
        const int64_t key = integer(words, 16);
        file_.d[key] = word32(words);
    }

    const std::string &name_;
    int number_ = 0;
    ExpectFile file_;
};

// Reports keys of either map whose values differ; `row` writes one.
template <class Map, class Row>
void compare_maps(const Map &expected, const Map &actual, Row row, size_t limit, std::vector<std::string> &out) {
    auto e = expected.begin();
    auto a = actual.begin();
    while ((e != expected.end() || a != actual.end()) && out.size() < limit) {
        if (a == actual.end() || (e != expected.end() && e->first < a->first)) {
            out.push_back(fmt::format("expected {}, which is absent", row(*e)));
            ++e;
        } else if (e == expected.end() || a->first < e->first) {
            out.push_back(fmt::format("unexpected {}", row(*a)));
            ++a;
        } else {
            if (e->second != a->second) {
                out.push_back(fmt::format("expected {}, found {}", row(*e), row(*a)));
            }
            ++e, ++a;
        }
    }
}

std::string scalar_row(char kind, const std::pair<const int, uint32_t> &entry) {
    return fmt::format("{} {} {:08X}", kind, entry.first, entry.second);
}
std::string vector_row(const std::pair<const int, std::array<uint32_t, lanes>> &entry) {
    std::string row = fmt::format("v {}", entry.first);
    for (const uint32_t word : entry.second) {
        row += fmt::format(" {:08X}", word);
    }
    return row;
}
std::string data_row(const ChangedWords::value_type &entry) {
    return fmt::format("d {} {:08X}", key_text(entry.first), entry.second);
}

}  // namespace

std::string ExpectFile::text() const {
    std::string out;
    for (const auto &entry : x) {
        out += scalar_row('x', entry) + '\n';
    }
    for (const auto &entry : m) {
        out += scalar_row('m', entry) + '\n';
    }
    for (const auto &entry : v) {
        out += vector_row(entry) + '\n';
    }
    for (const auto &entry : d) {
        out += data_row(entry) + '\n';
    }
    return out + fmt::format("packets {}\n", packets);
}

ExpectFile read_expect(std::istream &input, const std::string &name) {
    Reader reader(name);
    for (std::string line; std::getline(input, line);) {
        reader.line(line);
    }
    return reader.take();
}

ExpectFile read_expect(const std::filesystem::path &file) {
    std::ifstream input = open_to_read(file);
    return read_expect(input, file.string());
}

ExpectFile expect_of(const Registers &state, const ChangedWords &changed, uint64_t packets) {
    ExpectFile file;
    file.d = changed;
    file.packets = packets;
    for (int number = 0; number < 256; number++) {
        if (state.x[number] != 0) {
            file.x[number] = state.x[number];
        }
        std::array<uint32_t, lanes> words;
        std::ranges::transform(state.v[number], words.begin(), float_bits);
        if (std::ranges::any_of(words, [](uint32_t word) { return word != 0; })) {
            file.v[number] = words;
        }
    }
    for (int number = 0; number < 16; number++) {
        if (state.m[number] != 0) {
            file.m[number] = state.m[number];
        }
    }
    return file;
}

std::vector<std::string> differences(const ExpectFile &expected, const ExpectFile &actual, size_t limit) {
    std::vector<std::string> out;
    if (expected.packets != actual.packets) {
        out.push_back(fmt::format("expected {} packets, found {}", expected.packets, actual.packets));
    }
    compare_maps(
        expected.x, actual.x, [](const auto &entry) { return scalar_row('x', entry); }, limit, out);
    compare_maps(
        expected.m, actual.m, [](const auto &entry) { return scalar_row('m', entry); }, limit, out);
    compare_maps(expected.v, actual.v, vector_row, limit, out);
    compare_maps(expected.d, actual.d, data_row, limit, out);
    return out;
}

}  // namespace atalla
