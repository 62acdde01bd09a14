// Sums of products by letters, as transposes, matrix products and sums: operands are joined from left to right.
#include <algorithm>
#include <map>
#include <string>

#include "graph_import/decompositions/expansion.h"

namespace atalla {

namespace {

bool has(const std::string &letters, char letter) { return letters.find(letter) != std::string::npos; }

struct Term {
    ValueId value;
    std::string letters;
};

class Contraction {
public:
    explicit Contraction(Expansion &e) : e_(e) {}

    // False for what has no such form: a letter twice in a term, sizes that broadcast.
    bool read() {
        std::string equation;
        for (char c : e_.node.string("equation"))
            if (c != ' ') equation += c;
        const size_t arrow = equation.find("->");
        std::string left = equation.substr(0, arrow);
        std::vector<std::string> terms(1);
        for (char c : left) {
            if (c == ',')
                terms.emplace_back();
            else
                terms.back() += c;
        }
        const std::vector<ValueId> operands = e_.node.tensors("tensors");
        if (terms.size() != operands.size()) return false;
        size_t covered = 0;
        for (size_t i = 0; i < terms.size(); i++) {
            const size_t rank = e_.sizes(operands[i]).size(), dots = terms[i].find("...");
            if (dots == std::string::npos) continue;
            const size_t dims = rank - (terms[i].size() - 3);
            covered = std::max(covered, dims);
            terms[i].replace(dots, 3, dims_of_dots(dims));
        }
        for (size_t i = 0; i < terms.size(); i++)
            if (!add({operands[i], terms[i]})) return false;
        if (arrow == std::string::npos)
            result_ = dims_of_dots(covered) + letters_once();
        else
            result_ = equation.substr(arrow + 2);
        if (const size_t dots = result_.find("..."); dots != std::string::npos) result_.replace(dots, 3, dims_of_dots(covered));
        return std::ranges::all_of(result_, [&](char c) { return sizes_.contains(c); });
    }

    void write() {
        Term joined = terms_[0];
        for (size_t i = 1; i < terms_.size(); i++) {
            std::string kept = result_;
            for (size_t later = i + 1; later < terms_.size(); later++) kept += terms_[later].letters;
            joined = join(joined, terms_[i], kept);
        }
        joined = without(joined, result_);
        if (joined.letters != result_) joined = ordered(joined, result_);
        e_.last_view(joined.value);
    }

private:
    // Dimensions that the dots stand for, counted from the last one: control characters, which no equation has.
    static std::string dims_of_dots(size_t count) {
        std::string letters;
        for (size_t d = count; d > 0; d--) letters += static_cast<char>(d);
        return letters;
    }

    bool add(const Term &term) {
        const Sizes &sizes = e_.sizes(term.value);
        if (term.letters.size() != sizes.size()) return false;
        for (size_t d = 0; d < sizes.size(); d++) {
            const char letter = term.letters[d];
            if (std::ranges::count(term.letters, letter) > 1) return false;
            if (const auto [known, is_new] = sizes_.try_emplace(letter, sizes[d]); !is_new && !(known->second == sizes[d]))
                return false;
        }
        terms_.push_back(term);
        return true;
    }

    // In alphabetical order those that one term alone has.
    std::string letters_once() const {
        std::string once;
        for (const auto &entry : sizes_) {
            const char letter = entry.first;
            if (letter >= ' ' &&
                std::ranges::count_if(terms_, [&](const Term &term) { return has(term.letters, letter); }) == 1)
                once += letter;
        }
        return once;
    }

    Sizes sizes_of(const std::string &letters) const {
        Sizes sizes;
        for (char letter : letters) sizes.push_back(sizes_.at(letter));
        return sizes;
    }
    SymInt product_of(const std::string &letters) const {
        SymInt product = 1;
        for (char letter : letters) product = product * sizes_.at(letter);
        return product;
    }

    // Summed over the letters that nobody needs any more.
    Term without(const Term &term, const std::string &kept) {
        std::string letters;
        Sizes dims;
        for (size_t d = 0; d < term.letters.size(); d++) {
            if (has(kept, term.letters[d]))
                letters += term.letters[d];
            else
                dims.emplace_back(static_cast<int64_t>(d));
        }
        if (dims.empty()) return term;
        return {e_.call("aten::sum.dim_IntList", {{"self", term.value}, {"dim", dims}, {"keepdim", false}}, sizes_of(letters)),
                letters};
    }

    Term ordered(const Term &term, const std::string &letters) {
        if (term.letters == letters) return term;
        std::vector<int64_t> dims;
        for (char letter : letters) dims.push_back(static_cast<int64_t>(term.letters.find(letter)));
        return {e_.permute(term.value, dims), letters};
    }

    Term join(const Term &first, const Term &second, const std::string &kept) {
        const Term a = without(first, kept + second.letters), b = without(second, kept + a.letters);
        std::string batch, summed, of_a, of_b;
        for (char letter : a.letters) (!has(b.letters, letter) ? of_a : has(kept, letter) ? batch : summed) += letter;
        for (char letter : b.letters)
            if (!has(a.letters, letter)) of_b += letter;
        const std::string letters = batch + of_a + of_b;
        if (summed.empty()) {
            // Each element of one with each of the other.
            Sizes wide = sizes_of(batch + of_a);
            wide.insert(wide.end(), of_b.size(), 1);
            Sizes far = sizes_of(batch);
            far.insert(far.end(), of_a.size(), 1);
            for (char letter : of_b) far.push_back(sizes_.at(letter));
            return {e_.both("aten::mul.Tensor", e_.view(ordered(a, batch + of_a).value, wide),
                            e_.view(ordered(b, batch + of_b).value, far)),
                    letters};
        }
        const SymInt rows = product_of(of_a), columns = product_of(of_b), depth = product_of(summed),
                     matrices = product_of(batch);
        const ValueId left = e_.view(ordered(a, batch + of_a + summed).value, {matrices, rows, depth});
        const ValueId right = e_.view(ordered(b, batch + summed + of_b).value, {matrices, depth, columns});
        const ValueId product = e_.call("aten::bmm", {{"self", left}, {"mat2", right}}, Sizes{matrices, rows, columns});
        return {e_.view(product, sizes_of(letters)), letters};
    }

    Expansion &e_;
    std::vector<Term> terms_;
    std::map<char, SymInt> sizes_;
    std::string result_;
};

bool einsum(Expansion &e) {
    Contraction contraction(e);
    if (!contraction.read()) return false;
    contraction.write();
    return true;
}

}  // namespace

void add_einsum(Decompositions &all) { all["aten::einsum"] = einsum; }

}  // namespace atalla
