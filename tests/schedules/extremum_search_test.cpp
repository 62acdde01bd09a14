// What the larger of two elements takes in one lane, by trying every program: docs/bounds.md says that a compare and a masked
// copy do not do where one of them may be no number.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
constexpr std::array<float, 5> elements = {-infinity, -1, 2, infinity, nan};

// What a register or a mask holds for each pair of elements.
template <typename T>
using ForAll = std::array<T, elements.size() * elements.size()>;
using Register = ForAll<float>;
using Mask = ForAll<bool>;

Register of_pairs(float (*value)(float, float)) {
    Register all{};
    for (size_t i = 0; i < all.size(); i++) all[i] = value(elements[i / elements.size()], elements[i % elements.size()]);
    return all;
}

bool same(bool a, bool b) { return a == b; }
bool same(float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); }

template <typename T>
void add_new(std::vector<ForAll<T>> &all, const ForAll<T> &one) {
    const auto equals = [&](const ForAll<T> &other) {
        return std::equal(one.begin(), one.end(), other.begin(), [](T a, T b) { return same(a, b); });
    };
    if (std::none_of(all.begin(), all.end(), equals)) all.push_back(one);
}

Register merged(const Mask &mask, const Register &on, const Register &off) {
    Register all{};
    for (size_t i = 0; i < all.size(); i++) all[i] = mask[i] ? on[i] : off[i];
    return all;
}

// What there is without an operation of adder or multiplier: exponentials, in the lanes of a mask too.
void add_exponentials(std::vector<Register> &registers, const std::vector<Mask> &masks) {
    constexpr int rounds = 2;
    for (int round = 0; round < rounds; round++) {
        const std::vector<Register> now = registers;
        for (const Register &r : now) {
            Register power = r;
            for (float &x : power) x = std::exp(x);
            add_new(registers, power);
            if (round > 0) continue;
            for (const Mask &mask : masks)
                for (const Register &old : now) add_new(registers, merged(mask, power, old));
        }
    }
}

// Is there a program of so many operations of adder and multiplier? `numbers`: it may be wrong where an element is none.
bool finds(std::vector<Register> registers, const std::vector<Mask> &masks, int operations, bool numbers) {
    const Register wanted = of_pairs([](float a, float b) { return std::isnan(a) || std::isnan(b) ? nan : a > b ? a : b; });
    const auto is_wanted = [&](const Register &r) {
        for (size_t i = 0; i < r.size(); i++)
            if (!same(r[i], wanted[i]) && !(numbers && std::isnan(wanted[i]))) return false;
        return true;
    };
    if (operations == 0) return std::any_of(registers.begin(), registers.end(), is_wanted);
    add_exponentials(registers, masks);
    std::vector<Register> made;
    std::vector<Mask> compared;
    for (const Register &a : registers)
        for (const Register &b : registers) {
            Mask more{}, less{}, equal{}, other{};
            Register sum{}, difference{}, product{};
            for (size_t i = 0; i < sum.size(); i++) {
                more[i] = a[i] > b[i], less[i] = a[i] < b[i], equal[i] = a[i] == b[i], other[i] = a[i] != b[i];
                sum[i] = a[i] + b[i], difference[i] = a[i] - b[i], product[i] = a[i] * b[i];
            }
            for (const Register &r : {sum, difference, product}) {
                // The last operation makes what is wanted: in all lanes, or in those of a mask over any register.
                if (operations > 1) add_new(made, r);
                if (operations == 1 && is_wanted(r)) return true;
                for (const Mask &mask : masks)
                    for (const Register &old : registers) {
                        const Register both = merged(mask, r, old);
                        if (operations > 1) add_new(made, both);
                        if (operations == 1 && is_wanted(both)) return true;
                    }
            }
            for (const Mask &mask : {more, less, equal, other})
                if (operations > 1) add_new(compared, mask);
        }
    return std::any_of(made.begin(), made.end(),
                       [&](const Register &r) {
                           std::vector<Register> more = registers;
                           more.push_back(r);
                           return finds(more, masks, operations - 1, numbers);
                       }) ||
           std::any_of(compared.begin(), compared.end(), [&](const Mask &mask) {
               std::vector<Mask> more = masks;
               more.push_back(mask);
               return finds(registers, more, operations - 1, numbers);
           });
}

// The two elements and what a program may begin with.
bool takes(int operations, bool numbers) {
    return finds({of_pairs([](float a, float) { return a; }), of_pairs([](float, float b) { return b; }),
                  of_pairs([](float, float) { return 0.0F; })},
                 {}, operations, numbers);
}

TEST(Extremum, OfTwoNumbersIsACompareAndACopy) {
    EXPECT_FALSE(takes(1, true));
    EXPECT_TRUE(takes(2, true));
}

TEST(Extremum, OfTwoElementsTakesAnotherOperation) { EXPECT_FALSE(takes(2, false)); }

}  // namespace
