// The overloads of exported graphs that do not run on the accelerator, each with the decision why.
#include "generators/registry.h"

namespace atalla {

const std::vector<OperatorDecision> &operator_decisions() {
    using enum Resolution::Place;
    static const std::string view = "the same elements in the same order under another shape";
    static const std::string sizes =
        "a size, which is a number when a graph is compiled, or follows from sizes given at run time";
    static const std::string index =
        "indices and masks are integers, of which the machine has no vectors; they depend on sizes and not on weights, "
        "so they are computed once when the graph is compiled";
    static const std::string made = "its result does not depend on inputs: a constant of the compiled graph";
    static const std::string places =
        "by places that other tensors say, element by element: the machine's memory is read by rows";
    static const std::string orders =
        "an order of elements is found by comparing each with many, and the places are integers, of which the machine has no "
        "vectors";
    static const std::string assertion = "checked when the graph is compiled; it has no result";
    static const std::string integers =
        "on integers; the machine has no vectors of integers, and the tensors are as small as a batch of token ids";
    static const std::vector<OperatorDecision> decisions = {
        {"view", View, view},
        {"_unsafe_view", View, view},
        {"reshape", View, "a view where the elements keep their order; otherwise a permute first"},
        {"flatten.using_ints", View, view},
        {"unsqueeze", View, view},
        {"squeeze.dim", View, view},
        {"squeeze.dims", View, view},
        {"alias", View, view},
        {"contiguous", View, "tensors between kernels are dense, so nothing is to be done"},
        {"clone", View, "kernels do not write their inputs, so nobody sees the difference"},
        {"type_as", View, "all floating types are bf16 on the accelerator"},
        {"_to_copy", View, "all floating types are bf16 on the accelerator; conversions of integers are on the host"},
        {"to.dtype", View, "all floating types are bf16 on the accelerator; conversions of integers are on the host"},
        {"to.device", View, "there is one device"},
        {"to.dtype_layout", View, "all floating types are bf16 on the accelerator, all tensors are dense"},
        {"dropout", View, "the identity in inference"},
        {"as_strided", Host, "arbitrary strides; no model that was measured needs it on the accelerator"},
        {"sym_size.int", Folded, sizes},
        {"_operator.mul", Folded, sizes},
        {"_operator.add", Folded, sizes},
        {"arange", Folded, made},
        {"arange.start_step", Folded, made},
        {"new_ones", Folded, made},
        {"zeros", Folded, made},
        {"full", Folded, made},
        {"full_like", Folded, made},
        {"scalar_tensor", Folded, made},
        {"__and__.Tensor", Folded, index},
        {"bitwise_and.Tensor", Folded, index},
        {"logical_not", Folded, index},
        {"any.dim", Folded, index},
        {"ge.Scalar", Folded, index},
        {"le.Tensor", Folded, index},
        {"ne.Scalar", Folded, index},
        {"eq.Scalar", Folded, index},
        {"eq.Tensor", Folded, index},
        {"gt.Tensor", Folded, index},
        {"gt.Scalar", Folded, index},
        {"lt.Scalar", Folded, index},
        {"index.Tensor", Host, "of masks and position tables, by index tensors of any form: " + index},
        {"cumsum", Host, "position ids, " + integers},
        {"diff", Host, "position ids, " + integers},
        {"gather", Host, "token-type and position tables, " + integers},
        {"argmax", Host, "one index out of a row: a scan of the host over the logits costs less than a transfer of indices"},
        {"embedding", Host,
         "rows of a table by token ids: the ids are integers, and a copy of whole rows on the host moves them once"},
        {"index_select", Host, "as embedding"},
        {"split.Tensor", Host,
         "each part is a slice of its own, which runs on the accelerator; the list itself is bookkeeping"},
        {"split_with_sizes", Host, "as split.Tensor"},
        {"fmod.Scalar", Host, integers},
        {"cos", Host,
         "of the angles of rotary embeddings, which depend on positions alone and are as large as one head: a table of the "
         "host in float32, "
         "more exact than bf16 angles allow"},
        {"sin", Host, "as cos"},
        {"grid_sampler", Host, places},
        {"grid_sampler_2d", Host, places},
        {"grid_sampler_3d", Host, places},
        {"embedding_bag", Host, "as embedding"},
        {"embedding_bag.padding_idx", Host, "as embedding"},
        {"_embedding_bag_forward_only", Host, "as embedding"},
        {"masked_scatter", Host, places},
        {"scatter_reduce.two", Host, places},
        {"index_add", Host, places},
        {"bucketize.Tensor", Host, orders},
        {"searchsorted.Tensor", Host, orders},
        {"sort", Host, orders},
        {"topk", Host, orders},
        {"median.dim", Host, orders},
        {"kthvalue", Host, orders},
        {"cummax", Host, orders},
        {"cummin", Host, orders},
        {"index_copy", Host, "one row of a cache at a position that is an integer, which the machine has no vectors of"},
        {"where.Scalar", Host,
         "a boolean mask as numbers that are added to scores: masks are integers and as small as the scores of one head"},
        {"_assert_tensor_metadata", Dropped, assertion},
        {"_assert_scalar", Dropped, assertion},
        {"_assert_async.msg", Dropped, assertion},
        {"sym_constrain_range", Dropped, assertion},
        {"sym_constrain_range_for_size", Dropped, assertion},
    };
    return decisions;
}

}  // namespace atalla
