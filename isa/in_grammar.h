// The line grammar that A40 and A48 `.in` files and the data section of assembly text share.
#pragma once

#include <cstdint>
#include <functional>
#include <istream>
#include <span>
#include <string>
#include <string_view>

namespace atalla {

// Throws Error "name:line:column: message".
[[noreturn]] void fail_at(const std::string &name, int line, size_t column, const std::string &message);

// One `address: value` line.
struct InLine {
    const std::string &name;  // of the file, for messages
    std::string_view text;    // the whole line
    int number;               // from 1
    uint32_t address;
    size_t value_begin;  // offset in `text` of the first digit
    std::string digits;  // of the value: hexadecimal, no prefix, at least one

    // Fills `words`, most significant first, `word_digits` digits each, leading digits 0. Throws Error if the value is
    // wider.
    void split(std::span<uint64_t> words, size_t word_digits) const;
    uint32_t data_word() const;
    // Throws Error if `count` things of the file are more than `limit`.
    void check_limit(size_t count, size_t limit, std::string_view what) const;
    // 1-based column of the first digit written of word `index`.
    size_t word_column(size_t index, size_t words, size_t word_digits) const;
};

struct InHandlers {
    std::function<void(const InLine &)> packet;
    std::function<void(const InLine &)> data;
};

// Calls a handler for each line that holds something. `in_data` says in which section the first line lies, `first_line`
// is its number. Throws Error for a line that is not of the grammar.
void read_in_lines(std::istream &input, const std::string &name, const InHandlers &handlers, bool in_data = false,
                   int first_line = 1);

}  // namespace atalla
