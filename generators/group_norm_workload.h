// Normalization of groups of channels: the passes over a group as loops of their own, as one loop (group_norm_skewed.cpp), or a
// part of it at a time (group_norm_parts.h).
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <Halide.h>

#include "generators/channel_rows.h"
#include "generators/pipeline_workload.h"
#include "generators/row_space.h"

namespace atalla {

class GroupNorm : public PipelineWorkload {
public:
    GroupNorm(const WorkloadRequest &request, const GroupShape &shape);

    // Groups that the pads do not hold come in parts.
    Space space(const Machine &machine) const final;
    std::string words(const Machine &machine, const Point &point) const final;
    double draft(const Machine &machine, const Point &point) const final;
    KernelDefinition build(const Machine &machine, const Point &point) const final;

    std::vector<Reference> reference(const std::vector<TensorData> &inputs) const override;
    double tolerance_ulps() const override { return 4; }
    double flops() const override { return (6 + shape_.weight + shape_.bias) * static_cast<double>(outputs_[0].elements()); }

protected:
    using Expr = Halide::Expr;
    using Func = Halide::Func;

    // ---- groups that are in the pads, and whose passes are loops of their own

    virtual Space whole_space(const Machine &machine) const;
    virtual std::string whole_words(const Point &point) const;
    virtual double whole_draft(const Machine &machine, const Point &point) const;
    virtual KernelDefinition build_whole(const Machine &machine, const Point &point) const;

    KernelWork work(const Machine &machine) const override;

    // ---- a group as one row, whose passes are one loop (row_kernel.h)

    // Vectors of a group that are taken at a time; 0: each pass is a loop of its own, with points of `others` alone at their
    // least values else.
    void add_skewed(Space &space, const Machine &machine, const std::vector<std::pair<std::string, int64_t>> &others) const;
    bool skewed_fits(const Machine &machine, const Point &point) const;
    static std::string skewed_words(const Point &point);
    double skewed_draft(const Machine &machine, const Point &point) const;
    KernelDefinition build_skewed(const Machine &machine, const Point &point) const;
    // Vectors of a channel that follow each other where the passes over groups are one loop: a turn takes as many of each part.
    int64_t vectors_in_turn(const Point &point) const { return point["skewed"] / parts(); }
    int64_t parts() const { return std::max<int64_t>(1, row_shape().parts()); }
    // Does the loop go on by whole channels, or by parts of one, so that it can read the rows of channels? There are none for
    // what is behind the last one. Which channel a part is of takes the loop time: rows for each are better where they are few.
    bool reads_channels(const Point &point) const;
    // So many vectors of one channel that a turn takes have one row.
    int64_t run(const Point &point) const;
    int64_t rows_of_runs(const Point &point) const;
    // Are the sums of up to 32 vectors rounded, as where these are weights of the array? Passes that are one loop add as those
    // in loops of their own do.
    virtual bool in_parts() const { return false; }
    RowShape row_shape() const { return {shape_.groups * shape_.images, shape_.length(), 0, !in_parts()}; }
    static Point row_point(const Point &point);

    // A value at element `n` of a group, times the weight and plus the bias, from the rows of channels, or from rows for each
    // `run` of `count` vectors.
    Expr with_numbers(KernelDefinition &kernel, Expr value, const Func &ones, bool of_channels, int count, int run,
                      const Expr &n, const Expr &group) const;

    // Channels whose rows are made in straight-line code beside little room for constants.
    static constexpr int few_channels = 8;
    GroupShape shape_;
};

}  // namespace atalla
