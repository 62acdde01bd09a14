// Assembly text to tokens with their positions.
#pragma once

#include <string>
#include <string_view>

namespace atalla {

struct Token {
    enum class Kind { Word, Quoted, Punctuation, NewLine, End };
    Kind kind = Kind::End;
    std::string_view text;  // without quotes
    int line = 1;
    size_t column = 1;

    bool is(char punctuation) const { return kind == Kind::Punctuation && text[0] == punctuation; }
    bool is_name() const { return kind == Kind::Word || kind == Kind::Quoted; }
    bool ends_line() const { return kind == Kind::NewLine || kind == Kind::End; }
    // For messages: "'add.s'", "the end of the line".
    std::string describe() const;
};

// Words are runs of letters, digits and _ . $, with a sign before a number; names with other characters are quoted.
// Punctuation is one of , ( ) : ; { }. Comments run from # to the end of the line.
class AssemblyLexer {
public:
    // The text and name must outlive the lexer and its tokens.
    AssemblyLexer(std::string_view text, const std::string &name) : text_(text), name_(name) {}

    Token next();
    // Whether the next character that is not blank is `c`.
    bool followed_by(char c) const;
    // Moves to the end of the line, whatever it holds.
    void skip_line();
    // The text after the line of the last token, and the number of its first line.
    std::string_view rest(int &first_line) const;

private:
    Token make(Token::Kind kind, size_t begin, size_t length) const;
    void skip_blanks_and_comment();

    std::string_view text_;
    const std::string &name_;
    size_t position_ = 0;
    size_t line_begin_ = 0;
    int line_ = 1;
};

}  // namespace atalla
