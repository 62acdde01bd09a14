// The forms of attention, and the kernels of that on machines whose pads hold scores.
#pragma once

#include "generators/attention.h"
#include "schedules/space.h"

namespace atalla {

struct AttentionForm {
    bool (*takes)(const AttentionShape &shape, const Machine &machine);
    Space (*space)(const AttentionShape &shape, const Machine &machine);
    Point (*naive_point)(const AttentionShape &shape, const Machine &machine);
    // Cycles; on a machine without timing packets.
    double (*draft)(const AttentionShape &shape, const Machine &machine, const Point &point);
    KernelDefinition (*kernel)(const AttentionShape &shape, const Machine &machine, const Point &point);
};

// A single query for each head, as a decoder has it for every word that it makes: keys and values cross the chip once, each for
// one row. As attention_in_pads, but p V is a sum in lanes: rows of V times the weights of their keys, those of 32 keys two and
// two, over the blocks of 32 in order, each product and sum rounded to bf16. V needs no turning then. It takes heads that see
// all of their own keys, on machines with timing whose pads hold their scores.
extern const AttentionForm attention_of_one_query;
// Scores, sums and rows of the identity stay in registers, where small pads hold no tile of the keys beside one of the values.
// As attention_in_pads, but the sums of p are those of lanes over the blocks of 32 keys in bf16, then over the lanes.
extern const AttentionForm attention_in_registers;
// attention() as it is computed on the machine (AttentionShape::on()).
extern const AttentionForm attention_in_pads;

// The first of these that takes the shape.
const AttentionForm &attention_form(const AttentionShape &shape, const Machine &machine);

// The lowest bf16 number: where the largest score of a row starts.
constexpr float lowest_score = -0x1.FEp127f;

// Rows of at most 256 keys: the softmax of some is straight-line code.
KernelDefinition attention_of_whole_rows(const AttentionShape &shape, const Machine &machine, const Point &point);
// One tile of 32 keys after the other; where keys and values come by blocks, the sums of those before are scaled to a new
// largest score.
KernelDefinition attention_by_tiles(const AttentionShape &shape, const Machine &machine, const Point &point);
// One tile after the other, too, for all queries of a head.
KernelDefinition attention_streamed(const AttentionShape &shape, const Machine &machine, const Point &point);

}  // namespace atalla
