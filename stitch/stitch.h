// Makes one program of many kernels: bodies that calls share, a list of calls a segment, one entry and one halt.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "isa/program.h"

namespace atalla {

// Words behind the tensors' addresses of a call: where the next routine begins, and where its words are.
constexpr uint32_t next_words = 2;

// A kernel as code generation makes it with CompileOptions::routine.
struct Routine {
    std::string name;  // for people and the debug map: "gemm 64x64x64"
    Program program;
    size_t tensors = 0;  // parameter words, without those of what comes next
};

struct KernelCall {
    size_t routine = 0;               // index into StitchPlan::routines
    std::vector<uint32_t> addresses;  // bytes, of the routine's tensors in their order
    std::string node;                 // the node of the graph that it computes
};

// Calls that run one after the other. Each waits for the transfers of those before it, halt for the last.
struct Segment {
    std::vector<KernelCall> calls;
};

struct StitchPlan {
    std::vector<Routine> routines;
    std::vector<Segment> segments;
    uint32_t parameters = 0;  // byte address of the parameter words, a multiple of 4; parameter_bytes() are taken there
};

// Byte address of the word that says which segment runs: an entry of Stitched::entries.
constexpr uint32_t segment_word = 0x3C;

// A routine's place in the program, or that of the routine that a call runs: for reports and for reading a trace.
struct CodeRange {
    std::string name;  // routines: their name; calls: the node
    uint32_t begin = 0, end = 0;
    size_t routine = 0;  // calls: index into Stitched::routines
};

struct Stitched {
    Program program;                  // with the parameter words as data
    std::vector<uint32_t> entries;    // one a segment: write it to segment_word before the run
    std::vector<CodeRange> routines;  // in address order: those of the plan that are called, equal ones once
    std::vector<CodeRange> calls;     // in the order of segments and calls
};

// Bytes of the parameter words of all calls.
uint32_t parameter_bytes(const StitchPlan &plan);

// Error for a call whose addresses are not as many as its routine's tensors, and for a plan without segments.
Stitched stitch(const StitchPlan &plan);

}  // namespace atalla
