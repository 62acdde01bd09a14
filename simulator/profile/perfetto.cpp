#include "simulator/profile/perfetto.h"

#include <ostream>
#include <unordered_map>

#include <fmt/format.h>
#include <protozero/pbf_writer.hpp>

#include "isa/write_file.h"
#include "simulator/profile/labels.h"

namespace atalla {

namespace {

using protozero::pbf_writer;

// Field numbers of Perfetto's protos/perfetto/trace, by message.
namespace field {
constexpr uint32_t trace_packet = 1;
namespace packet {
constexpr uint32_t timestamp = 8, sequence = 10, track_event = 11, interned_data = 12, sequence_flags = 13,
                   track_descriptor = 60;
}
namespace descriptor {
constexpr uint32_t uuid = 1, name = 2, process = 3, parent = 5, child_ordering = 11, rank = 12;
}
namespace process {
constexpr uint32_t pid = 1, name = 6;
}
namespace event {
constexpr uint32_t annotations = 4, type = 9, name_iid = 10, track = 11;
}
namespace annotation {
constexpr uint32_t name_iid = 1, unsigned_value = 3, string_value = 6;
}
namespace interned {
constexpr uint32_t names = 2, annotation_names = 3, iid = 1, text = 2;
}
}  // namespace field

constexpr uint64_t slice_begin = 1, slice_end = 2;
constexpr uint64_t state_cleared = 1, needs_state = 2;  // sequence flags
constexpr uint64_t ordered_by_rank = 3;
constexpr uint64_t nanoseconds_per_cycle = 1000;
constexpr uint64_t process_uuid = 1, first_track_uuid = 2;
enum AnnotationName : uint64_t { Address = 1, Source, Row, Memory };

class Writer {
public:
    Writer(const Recording &recording, const Program &program, std::ostream &out)
        : recording_(recording), program_(program), out_(out) {}

    void write(const std::string &process) {
        describe(process);
        for (const Slice &slice : recording_.slices) {
            const uint64_t name = intern(slice);
            event(slice, name, slice_begin, slice.begin);
            event(slice, name, slice_end, slice.begin + slice.cycles);
        }
    }

private:
    template <class Fill>
    void packet(Fill &&fill) {
        buffer_.clear();
        {
            pbf_writer trace(buffer_);
            pbf_writer packet(trace, field::trace_packet);
            packet.add_uint32(field::packet::sequence, 1);
            fill(packet);
        }
        out_ << buffer_;
    }

    void describe(const std::string &process_name) {
        packet([&](pbf_writer &packet) {
            packet.add_uint32(field::packet::sequence_flags, state_cleared);
            pbf_writer interned(packet, field::packet::interned_data);
            for (const auto &[iid, name] : {std::pair{Address, "packet"}, std::pair{Source, "source"}, std::pair{Row, "row"},
                                            std::pair{Memory, "address"}}) {
                pbf_writer entry(interned, field::interned::annotation_names);
                entry.add_uint64(field::interned::iid, iid);
                entry.add_string(field::interned::text, name);
            }
        });
        packet([&](pbf_writer &packet) {
            pbf_writer track(packet, field::packet::track_descriptor);
            track.add_uint64(field::descriptor::uuid, process_uuid);
            track.add_enum(field::descriptor::child_ordering, ordered_by_rank);
            pbf_writer process(track, field::descriptor::process);
            process.add_int32(field::process::pid, 1);
            process.add_string(field::process::name, process_name);
        });
        for (size_t index = 0; index < recording_.tracks.size(); index++) {
            packet([&](pbf_writer &packet) {
                pbf_writer track(packet, field::packet::track_descriptor);
                track.add_uint64(field::descriptor::uuid, first_track_uuid + index);
                track.add_string(field::descriptor::name, recording_.tracks[index].name);
                track.add_uint64(field::descriptor::parent, process_uuid);
                track.add_int32(field::descriptor::rank, static_cast<int32_t>(index));
            });
        }
    }

    // The number of a slice's name, told to the reader when it comes up first.
    uint64_t intern(const Slice &slice) {
        const bool by_detail = slice.kind == SliceKind::Wait || slice.kind == SliceKind::OpenRow;
        const uint64_t what = by_detail ? slice.detail : static_cast<uint32_t>(slice.packet);
        const auto inserted = names_.emplace(
            what << 32 | uint64_t{slice.track} << 16 | uint64_t{slice.slot} << 8 | static_cast<uint64_t>(slice.kind), 0);
        uint64_t &iid = inserted.first->second;
        if (inserted.second) {
            iid = names_.size();
            packet([&](pbf_writer &packet) {
                packet.add_uint32(field::packet::sequence_flags, needs_state);
                pbf_writer interned(packet, field::packet::interned_data);
                pbf_writer entry(interned, field::interned::names);
                entry.add_uint64(field::interned::iid, iid);
                entry.add_string(field::interned::text, slice_name(slice, recording_.tracks[slice.track], program_));
            });
        }
        return iid;
    }

    void event(const Slice &slice, uint64_t name, uint64_t type, int64_t cycle) {
        packet([&](pbf_writer &packet) {
            packet.add_uint32(field::packet::sequence_flags, needs_state);
            packet.add_uint64(field::packet::timestamp, static_cast<uint64_t>(cycle) * nanoseconds_per_cycle);
            pbf_writer event(packet, field::packet::track_event);
            event.add_enum(field::event::type, static_cast<int32_t>(type));
            event.add_uint64(field::event::track, first_track_uuid + slice.track);
            if (type == slice_begin) {
                event.add_uint64(field::event::name_iid, name);
                annotate(event, slice);
            }
        });
    }

    static void annotate(pbf_writer &event, AnnotationName name, uint64_t value) {
        pbf_writer annotation(event, field::event::annotations);
        annotation.add_uint64(field::annotation::name_iid, name);
        annotation.add_uint64(field::annotation::unsigned_value, value);
    }
    static void annotate(pbf_writer &event, AnnotationName name, const std::string &text) {
        pbf_writer annotation(event, field::event::annotations);
        annotation.add_uint64(field::annotation::name_iid, name);
        annotation.add_string(field::annotation::string_value, text);
    }

    void annotate(pbf_writer &event, const Slice &slice) const {
        if (slice.packet >= 0) {
            const uint32_t address = program_.packets[static_cast<size_t>(slice.packet)].address;
            annotate(event, Address, fmt::format("0x{:08X}", address));
            if (const std::string origin = origin_of(slice.packet, program_); !origin.empty()) {
                annotate(event, Source, origin);
            }
        }
        switch (slice.kind) {
            case SliceKind::Access:
            case SliceKind::Transfer:
                return annotate(event, Row, slice.detail);
            case SliceKind::ReadBeat:
            case SliceKind::WriteBeat:
                return annotate(event, Memory, fmt::format("0x{:08X}", slice.detail));
            default:
                return;
        }
    }

    const Recording &recording_;
    const Program &program_;
    std::ostream &out_;
    std::string buffer_;
    std::unordered_map<uint64_t, uint64_t> names_;  // by what decides the name
};

}  // namespace

void write_perfetto(const Recording &recording, const Program &program, const std::string &process,
                    const std::filesystem::path &file) {
    write_file(file, [&](std::ostream &out) { Writer(recording, program, out).write(process); });
}

}  // namespace atalla
