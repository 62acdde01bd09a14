#include "isa/in_grammar.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "isa/error.h"
#include "isa/in_file.h"

namespace atalla {

namespace {

constexpr std::string_view blanks = " \t\r\f\v";

std::string printable(char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x20 && byte < 0x7F ? fmt::format("'{}'", c) : fmt::format("byte 0x{:02X}", byte);
}

int hex_digit(char c) {
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool is_separator(char c) { return c == '_' || blanks.find(c) != std::string_view::npos; }

// Digits that need not be written: a number is as wide as its digits without leading zeros.
size_t leading_zeros(std::string_view digits) { return std::min(digits.find_first_not_of('0'), digits.size()); }

// One line of a file without its comment.
class LineParser {
public:
    LineParser(const std::string &name, std::string_view line, int number)
        : name_(name), line_(line), code_(line.substr(0, line.find('#'))), number_(number) {}

    // "Blank" is what is left of a line of a comment only.
    bool is_blank() const { return code_.find_first_not_of(blanks) == std::string_view::npos; }

    bool is_data_directive() const {
        const size_t begin = code_.find_first_not_of(blanks);
        return begin != std::string_view::npos && code_.substr(begin).starts_with(".data");
    }

    InLine parse() const {
        const size_t colon = code_.find(':');
        if (colon == std::string_view::npos) {
            fail(code_.find_first_not_of(blanks), "expected `address: value`, but the line has no colon");
        }
        const size_t second = code_.find(':', colon + 1);
        if (second != std::string_view::npos) {
            fail(second, "expected one `address: value`, but the line has a second colon");
        }
        InLine line{name_, line_, number_, parse_address(colon), 0, {}};
        parse_value(colon + 1, line);
        return line;
    }

private:
    [[noreturn]] void fail(size_t offset, const std::string &message) const { fail_at(name_, number_, offset + 1, message); }

    // Past an optional 0x.
    size_t skip_prefix(size_t begin, size_t end) const {
        const bool prefixed = begin + 1 < end && code_[begin] == '0' && (code_[begin + 1] == 'x' || code_[begin + 1] == 'X');
        return prefixed ? begin + 2 : begin;
    }

    uint32_t parse_address(size_t colon) const {
        const size_t first = std::min(code_.find_first_not_of(blanks), colon);
        const size_t begin = skip_prefix(first, colon);
        const size_t last = code_.substr(0, colon).find_last_not_of(blanks);
        if (begin == colon || last == std::string_view::npos || begin > last) {
            fail(begin, "the address before the colon is missing");
        }
        uint64_t address = 0;
        for (size_t offset = begin; offset <= last; offset++) {
            const int digit = hex_digit(code_[offset]);
            if (digit < 0) {
                fail(offset, fmt::format("{} is not a hexadecimal digit of an address", printable(code_[offset])));
            }
            address = address * 16 + static_cast<uint64_t>(digit);
            if (address > UINT32_MAX) {
                fail(begin, "the address is wider than 32 bits");
            }
        }
        return static_cast<uint32_t>(address);
    }

    void parse_value(size_t begin, InLine &line) const {
        while (begin < code_.size() && is_separator(code_[begin])) {
            begin++;
        }
        begin = skip_prefix(begin, code_.size());
        line.value_begin = begin;
        for (size_t offset = begin; offset < code_.size(); offset++) {
            if (hex_digit(code_[offset]) >= 0) {
                line.digits += code_[offset];
            } else if (!is_separator(code_[offset])) {
                fail(offset, fmt::format("{} is not a hexadecimal digit of a value", printable(code_[offset])));
            }
        }
        if (line.digits.empty()) {
            fail(begin, "the value after the colon is missing");
        }
    }

    const std::string &name_;
    std::string_view line_;
    std::string_view code_;
    int number_;
};

}  // namespace

void fail_at(const std::string &name, int line, size_t column, const std::string &message) {
    throw Error(fmt::format("{}:{}:{}: {}", name, line, column, message));
}

void InLine::split(std::span<uint64_t> words, size_t word_digits) const {
    const size_t skip = leading_zeros(digits);
    const size_t significant = digits.size() - skip;
    if (significant > words.size() * word_digits) {
        fail_at(name, number, value_begin + 1,
                fmt::format("the value has {} hexadecimal digits, more than the {} bits that fit here", significant,
                            words.size() * word_digits * 4));
    }
    std::fill(words.begin(), words.end(), 0);
    for (size_t position = 0; position < significant; position++) {
        uint64_t &word = words[words.size() - 1 - position / word_digits];
        const auto digit = static_cast<uint64_t>(hex_digit(digits[digits.size() - 1 - position]));
        word |= digit << (4 * (position % word_digits));
    }
}

uint32_t InLine::data_word() const {
    uint64_t word = 0;
    split({&word, 1}, 8);
    return static_cast<uint32_t>(word);
}

void InLine::check_limit(size_t count, size_t limit, std::string_view what) const {
    if (count > limit) {
        fail_at(name, number, 1, fmt::format("the file has more than {} {}", limit, what));
    }
}

size_t InLine::word_column(size_t index, size_t words, size_t word_digits) const {
    const size_t following = (words - index) * word_digits;
    size_t skip = digits.size() > following ? digits.size() - following : 0;
    size_t offset = value_begin;
    while (offset < text.size()) {
        if (hex_digit(text[offset]) >= 0) {
            if (skip == 0) {
                break;
            }
            skip--;
        }
        offset++;
    }
    return offset + 1;
}

void read_in_lines(std::istream &input, const std::string &name, const InHandlers &handlers, bool in_data, int first_line) {
    std::vector<char> buffer(in_line_limit + 2);
    for (int number = first_line;
         input.getline(buffer.data(), static_cast<std::streamsize>(buffer.size())) || input.gcount() > 0; number++) {
        if (input.fail() && !input.eof()) {
            fail_at(name, number, in_line_limit, fmt::format("the line is longer than {} characters", in_line_limit));
        }
        const auto extracted = static_cast<size_t>(input.gcount());
        const std::string_view line(buffer.data(), input.eof() ? extracted : extracted - 1);
        const LineParser parser(name, line, number);
        if (parser.is_blank()) {
            continue;
        }
        if (parser.is_data_directive()) {
            in_data = true;
            continue;
        }
        (in_data ? handlers.data : handlers.packet)(parser.parse());
    }
    if (input.bad()) {
        throw Error(fmt::format("{}: reading failed", name));
    }
}

}  // namespace atalla
