// Attention of a single query for each head, as a decoder has it for every word that it makes: keys and values cross the chip
// once, each for one row.
#pragma once

#include "generators/attention.h"
#include "schedules/space.h"

namespace atalla {

// Has each head one query that sees all keys, which are its own, on a machine whose pads hold its scores?
bool has_one_query(const AttentionShape &shape, const Machine &machine);

Space one_query_space(const AttentionShape &shape, const Machine &machine);
Point one_query_naive_point();
// Cycles.
double one_query_draft(const AttentionShape &shape, const Point &point);

// As attention(), but p V is a sum in lanes: rows of V times the weights of their keys, those of 32 keys two and two, over the
// blocks of 32 in order, each product and sum rounded to bf16. V needs no turning then.
KernelDefinition attention_of_one_query(const AttentionShape &shape, const Point &point);

}  // namespace atalla
