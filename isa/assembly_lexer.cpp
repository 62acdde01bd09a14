#include "isa/assembly_lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "isa/in_grammar.h"

namespace atalla {

namespace {

constexpr std::string_view punctuation = ",():;{}";

bool is_word_character(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '$'; }

}  // namespace

std::string Token::describe() const {
    switch (kind) {
        case Kind::NewLine:
        case Kind::End:
            return "the end of the line";
        case Kind::Quoted:
            return fmt::format("\"{}\"", text);
        default:
            return fmt::format("'{}'", text);
    }
}

Token AssemblyLexer::make(Token::Kind kind, size_t begin, size_t length) const {
    return {kind, text_.substr(begin, length), line_, begin - line_begin_ + 1};
}

void AssemblyLexer::skip_blanks_and_comment() {
    while (position_ < text_.size() && (text_[position_] == ' ' || text_[position_] == '\t' || text_[position_] == '\r')) {
        position_++;
    }
    if (position_ < text_.size() && text_[position_] == '#') {
        position_ = std::min(text_.find('\n', position_), text_.size());
    }
}

Token AssemblyLexer::next() {
    skip_blanks_and_comment();
    const size_t begin = position_;
    if (begin >= text_.size()) {
        return make(Token::Kind::End, begin, 0);
    }
    const char first = text_[begin];
    if (first == '\n') {
        const Token token = make(Token::Kind::NewLine, begin, 1);
        position_++;
        line_++;
        line_begin_ = position_;
        return token;
    }
    if (punctuation.find(first) != std::string_view::npos) {
        position_++;
        return make(Token::Kind::Punctuation, begin, 1);
    }
    if (first == '"') {
        const size_t end = text_.find_first_of("\"\n", begin + 1);
        if (end == std::string_view::npos || text_[end] == '\n') {
            fail_at(name_, line_, begin - line_begin_ + 1, "the quoted name does not end on its line");
        }
        position_ = end + 1;
        Token token = make(Token::Kind::Quoted, begin + 1, end - begin - 1);
        token.column--;
        return token;
    }
    const bool is_sign = first == '-' || first == '+';
    position_ += is_sign;
    while (position_ < text_.size() && is_word_character(text_[position_])) {
        position_++;
    }
    if (position_ - begin == static_cast<size_t>(is_sign)) {
        const auto byte = static_cast<unsigned char>(first);
        fail_at(name_, line_, begin - line_begin_ + 1,
                byte >= 0x20 && byte < 0x7F ? fmt::format("'{}' has no meaning here", first)
                                            : fmt::format("byte 0x{:02X} has no meaning here", byte));
    }
    return make(Token::Kind::Word, begin, position_ - begin);
}

bool AssemblyLexer::followed_by(char c) const {
    const size_t next = text_.find_first_not_of(" \t", position_);
    return next != std::string_view::npos && text_[next] == c;
}

void AssemblyLexer::skip_line() { position_ = std::min(text_.find('\n', position_), text_.size()); }

std::string_view AssemblyLexer::rest(int &first_line) const {
    const size_t end = text_.find('\n', position_);
    first_line = line_ + 1;
    return end == std::string_view::npos ? std::string_view{} : text_.substr(end + 1);
}

}  // namespace atalla
