#include "model/specialization.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "generators/kernel_run.h"
#include "graph_import/arena.h"
#include "isa/error.h"
#include "runtime/bf16.h"

namespace atalla {

namespace {

// The words below this address are the segment word's and free; the parameter words follow.
constexpr int64_t first_parameter = 0x100;
// Tensors start where a transfer's beats and a cache line do; large constants, and what is computed, at their tensor_start().
constexpr int64_t alignment = 64, large_alignment = 2048;

int64_t aligned(int64_t at, int64_t to) { return (at + to - 1) / to * to; }

std::unique_ptr<loadable::ArgumentT> argument_of(const NamedArgument &given,
                                                 const std::function<int32_t(ValueId)> &value_index) {
    auto result = std::make_unique<loadable::ArgumentT>();
    result->name = given.name;
    const auto set = [&](loadable::ArgumentKind kind) { result->kind = kind; };
    if (const auto *id = std::get_if<ValueId>(&given.value)) {
        set(loadable::ArgumentKind_Tensor);
        result->ints = {*id ? value_index(*id) : -1};
    } else if (const auto *ids = std::get_if<std::vector<ValueId>>(&given.value)) {
        set(loadable::ArgumentKind_Tensors);
        for (ValueId one : *ids) result->ints.push_back(one ? value_index(one) : -1);
    } else if (const auto *value = std::get_if<SymInt>(&given.value)) {
        set(loadable::ArgumentKind_Int);
        result->ints = {value->value()};
    } else if (const auto *values = std::get_if<Sizes>(&given.value)) {
        set(loadable::ArgumentKind_Ints);
        result->ints = constant_sizes(*values);
    } else if (const auto *number = std::get_if<double>(&given.value)) {
        set(loadable::ArgumentKind_Float);
        result->floats = {*number};
    } else if (const auto *numbers = std::get_if<std::vector<double>>(&given.value)) {
        set(loadable::ArgumentKind_Floats);
        result->floats = *numbers;
    } else if (const auto *flag = std::get_if<bool>(&given.value)) {
        set(loadable::ArgumentKind_Bool);
        result->ints = {*flag};
    } else if (const auto *flags = std::get_if<std::vector<bool>>(&given.value)) {
        set(loadable::ArgumentKind_Bools);
        for (const bool one : *flags) result->ints.push_back(one);
    } else if (const auto *text = std::get_if<std::string>(&given.value)) {
        set(loadable::ArgumentKind_String);
        result->text = *text;
    } else if (const auto *dtype = std::get_if<DType>(&given.value)) {
        set(loadable::ArgumentKind_Type);
        result->ints = {static_cast<int64_t>(*dtype)};
    }
    return result;
}

std::unique_ptr<loadable::CodeT> code_of(const Stitched &stitched) {
    auto code = std::make_unique<loadable::CodeT>();
    for (const PlacedPacket &packet : stitched.program.packets) {
        for (const Instruction &slot : packet.packet) {
            const uint64_t word = encode(slot);
            constexpr int slot_bytes = 5;
            for (int b = 0; b < slot_bytes; b++) code->packets.push_back(static_cast<uint8_t>(word >> (8 * b)));
        }
        code->sources.push_back(packet.source);
    }
    for (const auto &[address, value] : stitched.program.data) {
        auto word = std::make_unique<loadable::WordT>();
        word->address = address;
        word->value = value;
        code->data.push_back(std::move(word));
    }
    for (const auto &[from, to] : {std::pair(&stitched.routines, &code->routines), std::pair(&stitched.calls, &code->calls)})
        for (const CodeRange &range : *from) {
            auto made = std::make_unique<loadable::RangeT>();
            made->name = range.name;
            made->begin = range.begin;
            made->end = range.end;
            made->routine = static_cast<uint32_t>(range.routine);
            to->push_back(std::move(made));
        }
    for (const SourceLocation &source : stitched.program.sources) {
        auto place = std::make_unique<loadable::PlaceT>();
        place->func = source.func;
        place->loop = source.loop;
        place->node = source.node;
        code->places.push_back(std::move(place));
    }
    return code;
}

class Builder {
public:
    Builder(const SpecializationPlan &plan, const Machine &machine, ConstantPool &constants)
        : plan_(plan),
          graph_(plan.graph),
          machine_(machine),
          constants_(constants),
          result_(std::make_unique<loadable::SpecializationT>()) {}

    MadeSpecialization run() {
        place();
        for (const GraphInput &input : graph_.inputs)
            if (input.kind == GraphInput::Kind::User && input.value) result_->inputs.push_back(index(input.value));
        make_steps();
        for (const GraphOutput &output : graph_.outputs) add_output(output);
        return {std::move(result_), std::move(drawn_)};
    }

    std::vector<Segment> segments() {
        place();
        std::vector<Segment> segments;
        for (const NodeRun &run : runs_) {
            if (!run.device) continue;
            segments.emplace_back();
            for (const int32_t node : run.nodes)
                if (placed(node).place == PlacedNode::Device) segments.back().calls.push_back(call_of(node));
        }
        return segments;
    }

private:
    void place() {
        runs_ = order_nodes(graph_, plan_.placed, plan_.kernel_of);
        if (plan_.one_by_one) runs_ = one_kernel_each(runs_, plan_.placed);
        note_uses();
        place_in_memory();
    }

    // What happens to a value, in times: a node takes one, in the order of execution.
    struct Life {
        bool on_device = false;  // a device call reads or writes it
        bool on_host = false;    // the host reads it
        int32_t first = INT32_MAX, last = -1;
        int64_t address = -1;
    };

    const PlacedNode &placed(int32_t node) const { return plan_.placed[static_cast<size_t>(node)]; }
    // Views of results of the accelerator are where those are.
    ValueId root(ValueId id) const {
        while (true) {
            const int32_t producer = graph_.value(id).producer;
            if (producer < 0 || placed(producer).place != PlacedNode::View || !device_node_[static_cast<size_t>(producer)])
                return id;
            id = placed(producer).inputs[0];
        }
    }
    Life &life(ValueId id) { return lives_[root(id)]; }

    void note_uses() {
        device_node_.assign(graph_.nodes.size(), false);
        for (const NodeRun &run : runs_)
            for (int32_t node : run.nodes) device_node_[static_cast<size_t>(node)] = run.device;
        int32_t time = 0;
        for (const NodeRun &run : runs_) {
            const int32_t begin = ++time;
            for (int32_t node : run.nodes) {
                time++;
                note_call(node, run, time);
                const Node &n = graph_.nodes[static_cast<size_t>(node)];
                if (run.device && placed(node).place == PlacedNode::Device) {
                    for (ValueId id : placed(node).inputs) use(id, true, made_on_device(id) ? time : begin, time);
                    for (ValueId id : n.outputs) {
                        Life &l = life(id);
                        l.on_device = true;
                        l.first = std::min(l.first, time);
                        l.last = std::max(l.last, time);
                    }
                } else if (!run.device) {
                    for_each_value(n, [&](ValueId id) { use(id, false, time, time); });
                }
            }
        }
        end_ = time + 1;
        for (const GraphOutput &output : graph_.outputs)
            for_each_value(output.value, [&](ValueId id) { use(id, false, end_, end_); });
    }
    void note_call(int32_t node, const NodeRun &run, int32_t time) {
        const Node &n = graph_.nodes[static_cast<size_t>(node)];
        const PlacedNode &p = placed(node);
        if (run.device && p.place != PlacedNode::Device) return;  // a view
        const int kernel = plan_.kernel_of[static_cast<size_t>(node)];
        const std::string result = n.outputs.empty() || !n.outputs[0] ? "" : graph_.value(n.outputs[0]).name;
        drawn_.calls.push_back({time, static_cast<size_t>(&run - runs_.data()), run.device,
                                run.device ? plan_.kernels[static_cast<size_t>(kernel)].routine.name : n.target, result,
                                run.device ? "" : p.reason});
    }
    bool made_on_device(ValueId id) const {
        const int32_t producer = graph_.value(root(id)).producer;
        return producer >= 0 && device_node_[static_cast<size_t>(producer)];
    }
    // What the host makes is brought over at the start of the segment that first reads it.
    void use(ValueId id, bool device, int32_t first, int32_t last) {
        Life &l = life(id);
        (device ? l.on_device : l.on_host) = true;
        if (device) l.first = std::min(l.first, first);
        l.last = std::max(l.last, last);
    }

    bool is_constant(ValueId id) const { return graph_.value(id).producer < 0 && graph_.constant_data(id) != nullptr; }
    int64_t device_bytes(ValueId id) const {
        int64_t elements = 1;
        for (int64_t size : constant_sizes(graph_.type(id).sizes)) elements *= size;
        return 2 * elements;
    }

    void place_in_memory() {
        size_t words = 0;
        for (const int kernel : plan_.kernel_of)
            if (kernel >= 0) words += plan_.kernels[static_cast<size_t>(kernel)].routine.tensors + next_words;
        int64_t at = aligned(first_parameter + 4 * static_cast<int64_t>(words), large_alignment);
        std::vector<Buffer> buffers;
        std::vector<std::pair<ValueId, Life *>> owners;
        for (auto &[id, l] : lives_) {
            if (!l.on_device) continue;
            if (is_constant(id)) {
                const int64_t bytes = device_bytes(id);
                l.address =
                    bytes < large_alignment
                        ? aligned(at, alignment)
                        : static_cast<int64_t>(tensor_start(static_cast<uint64_t>(at), static_cast<uint64_t>(bytes), machine_));
                at = l.address + bytes;
                continue;
            }
            buffers.push_back({device_bytes(id), l.first, l.last, -1});
            owners.emplace_back(id, &l);
        }
        at = aligned(at, large_alignment);
        const Arena arena = plan_arena(buffers, large_alignment, [&](int64_t offset, int64_t bytes) {
            return static_cast<int64_t>(
                       tensor_start(static_cast<uint64_t>(at + offset), static_cast<uint64_t>(bytes), machine_)) -
                   at;
        });
        for (size_t i = 0; i < buffers.size(); i++) {
            const Buffer &buffer = buffers[i];
            owners[i].second->address = at + buffer.offset;
            drawn_.tensors.push_back(
                {graph_.value(owners[i].first).name, buffer.bytes, buffer.offset, buffer.first, buffer.last});
        }
        drawn_.arena_bytes = arena.bytes;
        drawn_.arena_bound = arena.bound;
        result_->arena_bytes = static_cast<uint64_t>(arena.bytes);
        result_->arena_bound = static_cast<uint64_t>(arena.bound);
        result_->memory_bytes = static_cast<uint64_t>(at + arena.bytes);
        if (at + arena.bytes > machine_.memory.bytes)
            throw Error(fmt::format("the model needs {} bytes of memory, {} of them for weights, but machine '{}' has {}",
                                    at + arena.bytes, at, machine_.name, machine_.memory.bytes));
    }

    // The value's index in the specialization; it is added when it is first asked for.
    int32_t index(ValueId id) {
        const auto [entry, is_new] = indices_.try_emplace(id, static_cast<int32_t>(result_->values.size()));
        if (!is_new) return entry->second;
        auto value = std::make_unique<loadable::ValueT>();
        value->name = graph_.value(id).name;
        value->dtype = loadable_type(graph_, id);
        value->sizes = constant_sizes(graph_.type(id).sizes);
        const Life &l = life(id);
        if (l.on_device) value->address = l.address;
        if (graph_.value(id).producer < 0) {
            const int input = graph_.input_of(id);
            if (const HostTensor *data = graph_.constant_data(id))
                value->constant = constants_.add(value->name, *data, l.on_device && !l.on_host);
            else if (const auto state = plan_.states.find(input); state != plan_.states.end())
                value->state = state->second;
        }
        result_->values.push_back(std::move(value));
        return entry->second;
    }

    void make_steps() {
        StitchPlan stitching;
        stitching.parameters = first_parameter;
        for (const ChosenKernel &kernel : plan_.kernels) stitching.routines.push_back(kernel.routine);
        std::vector<loadable::DeviceCallT *> device_calls;
        for (const NodeRun &run : runs_) {
            if (run.device) {
                device_calls.push_back(add_segment(run, stitching));
                continue;
            }
            for (int32_t node : run.nodes) add_host_call(graph_.nodes[static_cast<size_t>(node)]);
        }
        if (stitching.segments.empty()) return;
        const Stitched stitched = stitch(stitching);
        for (size_t i = 0; i < device_calls.size(); i++) device_calls[i]->entry = stitched.entries[i];
        result_->code = code_of(stitched);
        size_t at = 0;
        for (const Segment &segment : stitching.segments)
            for (const KernelCall &call : segment.calls)
                result_->code->calls[at++]->bound_cycles = plan_.kernels[call.routine].bound_cycles;
    }

    loadable::DeviceCallT *add_segment(const NodeRun &run, StitchPlan &stitching) {
        loadable::DeviceCallT call;
        std::vector<bool> inside(graph_.nodes.size(), false);
        for (int32_t node : run.nodes) inside[static_cast<size_t>(node)] = true;
        Segment segment;
        std::vector<int32_t> reads;
        for (int32_t node : run.nodes) {
            const Node &n = graph_.nodes[static_cast<size_t>(node)];
            for (ValueId id : n.outputs)
                if (id) call.writes.push_back(index(id));
            if (placed(node).place != PlacedNode::Device) continue;
            for (ValueId id : placed(node).inputs) {
                const int32_t producer = graph_.value(id).producer;
                if (!is_constant(id) && (producer < 0 || !inside[static_cast<size_t>(producer)]))
                    reads.push_back(index(id));
                else
                    index(id);
            }
            segment.calls.push_back(call_of(node));
        }
        std::sort(reads.begin(), reads.end());
        reads.erase(std::unique(reads.begin(), reads.end()), reads.end());
        call.reads = std::move(reads);
        auto step = std::make_unique<loadable::StepT>();
        step->node = segment.calls.size() == 1 ? segment.calls[0].node
                                               : fmt::format("{} to {} ({} kernels)", segment.calls.front().node,
                                                             segment.calls.back().node, segment.calls.size());
        stitching.segments.push_back(std::move(segment));
        step->work.Set(std::move(call));
        result_->steps.push_back(std::move(step));
        return result_->steps.back()->work.AsDeviceCall();
    }

    KernelCall call_of(int32_t node) {
        const Node &n = graph_.nodes[static_cast<size_t>(node)];
        KernelCall call{static_cast<size_t>(plan_.kernel_of[static_cast<size_t>(node)]),
                        {},
                        n.outputs.empty() ? n.target : graph_.value(n.outputs[0]).name};
        for (const std::vector<ValueId> &values : {placed(node).inputs, n.outputs})
            for (const ValueId id : values) call.addresses.push_back(static_cast<uint32_t>(life(id).address));
        return call;
    }

    void add_host_call(const Node &node) {
        loadable::HostCallT call;
        call.target = node.target;
        for (const NamedArgument &argument : node.arguments)
            call.arguments.push_back(argument_of(argument, [this](ValueId id) { return index(id); }));
        for (ValueId id : node.outputs) call.results.push_back(id ? index(id) : -1);
        auto step = std::make_unique<loadable::StepT>();
        step->node = node.outputs.empty() || !node.outputs[0] ? node.target : graph_.value(node.outputs[0]).name;
        step->work.Set(std::move(call));
        result_->steps.push_back(std::move(step));
    }

    void add_output(const GraphOutput &output) {
        const auto *id = std::get_if<ValueId>(&output.value);
        if (id == nullptr || !*id || graph_.value(*id).kind != Value::Kind::Tensor) return;
        const auto state = output.kind == GraphOutput::Kind::Mutation ? plan_.states.find(output.target) : plan_.states.end();
        if (state == plan_.states.end()) {
            result_->outputs.push_back(index(*id));
            return;
        }
        auto mutation = std::make_unique<loadable::MutationT>();
        mutation->state = static_cast<uint32_t>(state->second);
        mutation->value = static_cast<uint32_t>(index(*id));
        result_->mutations.push_back(std::move(mutation));
    }

    const SpecializationPlan &plan_;
    const Graph &graph_;
    const Machine &machine_;
    ConstantPool &constants_;
    std::unique_ptr<loadable::SpecializationT> result_;
    ModelPlan drawn_;
    std::vector<NodeRun> runs_;
    std::vector<bool> device_node_;
    std::map<ValueId, Life> lives_;  // by root
    std::map<ValueId, int32_t> indices_;
    int32_t end_ = 0;
};

}  // namespace

loadable::DType loadable_type(const Graph &graph, ValueId id) {
    switch (const DType dtype = graph.type(id).dtype; dtype) {
        case DType::UInt8:
        case DType::Int8:
        case DType::Int16:
        case DType::Int32:
        case DType::Int64:
        case DType::Float16:
        case DType::Float32:
        case DType::Float64:
        case DType::Bool:
        case DType::BFloat16:
            return static_cast<loadable::DType>(dtype);
        default:
            throw Error(fmt::format("{} is {}: neither the accelerator nor the host computes with such numbers",
                                    graph.value(id).name, dtype_name(dtype)));
    }
}

int32_t ConstantPool::add(const std::string &name, const HostTensor &tensor, bool device_only) {
    const Key key{tensor.begin(), tensor.sizes, tensor.strides, tensor.dtype, device_only};
    const auto [entry, is_new] = known_.try_emplace(key, static_cast<int32_t>(constants_.size()));
    if (!is_new) return entry->second;
    kept_.push_back(tensor.storage);
    auto constant = std::make_unique<loadable::ConstantT>();
    constant->name = name;
    constant->sizes = tensor.sizes;
    if (device_only) {
        const std::vector<uint16_t> elements = bf16_elements(tensor);
        constant->dtype = loadable::DType_BFloat16;
        const auto *bytes = reinterpret_cast<const uint8_t *>(elements.data());
        constant->data.assign(bytes, bytes + 2 * elements.size());
    } else {
        const HostTensor dense = tensor.is_dense() ? tensor : dense_copy(tensor);
        constant->dtype = static_cast<loadable::DType>(tensor.dtype);
        const auto *bytes = reinterpret_cast<const uint8_t *>(dense.begin());
        constant->data.assign(bytes, bytes + dense.elements() * element_bytes(dense.dtype));
    }
    constants_.push_back(std::move(constant));
    return entry->second;
}

MadeSpecialization make_specialization(const SpecializationPlan &plan, const Machine &machine, ConstantPool &constants) {
    return Builder(plan, machine, constants).run();
}

std::vector<Segment> planned_segments(const SpecializationPlan &plan, const Machine &machine) {
    ConstantPool none;
    return Builder(plan, machine, none).segments();
}

}  // namespace atalla
