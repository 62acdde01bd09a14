#include "simulator/profile/trace.h"

#include <algorithm>

#include <fmt/format.h>

namespace atalla {

using timing::Issued;
using timing::Source;

namespace {

// The overview is coarsened whenever it would have more stretches than this.
constexpr size_t most_stretches = 1024;

// Units with a track of their own, in the order in which they are shown.
struct UnitTrack {
    Source source;
    Unit unit;
    const char *name;
};
constexpr UnitTrack unit_tracks[] = {
    {Source::Ex1, Unit::Ex1, "EX1"}, {Source::Ex2, Unit::Ex2, "EX2"},
    {Source::Ex3, Unit::Ex3, "EX3"}, {Source::Ex4, Unit::Ex4, "EX4"},
    {Source::Ex5, Unit::Ex5, "EX5"}, {Source::MoveToScalar, Unit::MoveToScalar, "move to scalar"},
    {Source::Alu, Unit::Alu, "ALU"}, {Source::Mul, Unit::Mul, "MUL"},
    {Source::Exp, Unit::Exp, "EXP"}, {Source::Reduce, Unit::Reduce, "reduction"},
};
constexpr size_t unit_track_count = std::size(unit_tracks);
constexpr size_t ex5_track = 4;

size_t unit_track(Unit unit) {
    return static_cast<size_t>(std::ranges::find(unit_tracks, unit, &UnitTrack::unit) - std::begin(unit_tracks));
}

}  // namespace

Recorder::Recorder(const Machine &machine, const RecordOptions &options) : options_(options), pad_count_(machine.pad.count) {
    add_track(TrackKind::Issue, 0, "issue");
    first_unit_ = recording_.tracks.size();
    for (const UnitTrack &track : unit_tracks) {
        add_track(TrackKind::Unit, static_cast<int>(track.source), track.name);
    }
    array_ = recording_.tracks.size();
    add_track(TrackKind::Array, 0, "array");
    const auto add_for_pads = [&](size_t &first, TrackKind kind, fmt::format_string<int &> name) {
        first = recording_.tracks.size();
        for (int pad = 0; pad < pad_count_; pad++) {
            add_track(kind, pad, fmt::format(name, pad));
        }
    };
    add_for_pads(first_vlsu_, TrackKind::Vlsu, "VLSU {}");
    add_for_pads(first_read_, TrackKind::PadRead, "pad {} read");
    add_for_pads(first_write_, TrackKind::PadWrite, "pad {} write");
    add_for_pads(first_dma_, TrackKind::Dma, "DMA {}");
    first_bank_ = recording_.tracks.size();
    for (int bank = 0; bank < machine.dram.banks; bank++) {
        add_track(TrackKind::DramBank, bank, fmt::format("DRAM bank {}", bank));
    }
    recording_.from = options.from;
}

Recording Recorder::take() {
    if (!recording_.cut) {
        recording_.end = std::min(options_.to, last_seen_ + 1);
    }
    // A transfer or a scalar access is known when it ends, but begins before others that are known already.
    std::ranges::stable_sort(recording_.slices, {}, [](const Slice &slice) { return std::pair(slice.track, slice.begin); });
    // A refresh loses the preparation of a bank, which then ends early.
    for (size_t index = 1; index < recording_.slices.size(); index++) {
        Slice &before = recording_.slices[index - 1];
        const Slice &slice = recording_.slices[index];
        if (before.track == slice.track && before.begin + before.cycles > slice.begin) {
            before.cycles = static_cast<uint32_t>(slice.begin - before.begin);
        }
    }
    return std::move(recording_);
}

void Recorder::add_track(TrackKind kind, int index, std::string name) {
    recording_.tracks.push_back({kind, index, std::move(name)});
}

void Recorder::add(size_t track, SliceKind kind, int64_t begin, int64_t cycles, int32_t packet, uint8_t slot, uint32_t detail) {
    last_seen_ = std::max(last_seen_, begin + cycles - 1);
    if (begin < options_.from || begin >= options_.to || recording_.cut) {
        return;
    }
    if (recording_.slices.size() >= options_.most_slices) {
        recording_.cut = true;
        recording_.end = begin;
        return;
    }
    recording_.slices.push_back(
        {begin, static_cast<uint32_t>(cycles), detail, packet, static_cast<uint16_t>(track), kind, slot});
}

Overview::Stretch &Recorder::stretch_of(int64_t cycle) {
    Overview &overview = recording_.overview;
    auto index = static_cast<size_t>(cycle / overview.cycles_each);
    while (index >= most_stretches) {
        std::vector<Overview::Stretch> merged((overview.stretches.size() + 1) / 2);
        for (size_t at = 0; at < overview.stretches.size(); at++) {
            merged[at / 2].packets += overview.stretches[at].packets;
            for (size_t cause = 0; cause < stall_causes; cause++) {
                merged[at / 2].stalls[cause] += overview.stretches[at].stalls[cause];
            }
        }
        overview.stretches = std::move(merged);
        overview.cycles_each *= 2;
        index = static_cast<size_t>(cycle / overview.cycles_each);
    }
    if (index >= overview.stretches.size()) {
        overview.stretches.resize(index + 1);
    }
    return overview.stretches[index];
}

void Recorder::waits(int32_t packet, Stall cause, int64_t from, int64_t to) {
    for (int64_t at = from; at < to;) {
        Overview::Stretch &stretch = stretch_of(at);
        const int64_t next = std::min(to, (at / recording_.overview.cycles_each + 1) * recording_.overview.cycles_each);
        stretch.stalls[static_cast<size_t>(cause)] += static_cast<uint32_t>(next - at);
        at = next;
    }
    // Waits are told piece by piece.
    if (last_wait_ < recording_.slices.size()) {
        Slice &last = recording_.slices[last_wait_];
        if (last.packet == packet && last.detail == static_cast<uint32_t>(cause) && last.begin + last.cycles == from) {
            last.cycles += static_cast<uint32_t>(to - from);
            return;
        }
    }
    last_wait_ = recording_.slices.size();
    add(0, SliceKind::Wait, from, to - from, packet, 0, static_cast<uint32_t>(cause));
}

void Recorder::issues(int32_t packet, int64_t at, const MachineState &) {
    stretch_of(at).packets++;
    add(0, SliceKind::Packet, at, 1, packet, 0, 0);
}

void Recorder::operation(const Issued &issued) {
    const Unit unit = info(issued.instruction->op).unit;
    const auto slot = static_cast<uint8_t>(issued.slot);
    switch (unit) {
        case Unit::Array:
            add(array_, SliceKind::Operation, issued.cycle, issued.busy, issued.packet, slot, 0);
            break;
        case Unit::Vlsu:
            add(first_vlsu_ + issued.pad, SliceKind::Operation, issued.cycle, 1, issued.packet, slot, issued.address);
            break;
        case Unit::Ex5:
            last_access_ = issued;
            break;
        case Unit::Sdma:
            transfers_[issued.pad] = issued;
            break;
        default:
            if (const size_t track = unit_track(unit); track < unit_track_count) {
                add(first_unit_ + track, SliceKind::Operation, issued.cycle, issued.busy, issued.packet, slot, 0);
            }
    }
}

void Recorder::access(int64_t issued, int64_t end, bool, bool) {
    add(first_unit_ + ex5_track, SliceKind::Operation, issued, end - issued, last_access_.packet,
        static_cast<uint8_t>(last_access_.slot), last_access_.address);
}

void Recorder::pad_starts(uint32_t pad, bool write, bool of_transfer, uint32_t row, int32_t packet, int64_t at, int64_t busy,
                          int64_t) {
    add((write ? first_write_ : first_read_) + pad, of_transfer ? SliceKind::Transfer : SliceKind::Access, at, busy, packet, 0,
        row);
}

void Recorder::transfer_ends(uint32_t pad, int32_t packet, int64_t issued, int64_t end) {
    add(first_dma_ + pad, SliceKind::Operation, issued, end - issued + 1, packet, static_cast<uint8_t>(transfers_[pad].slot),
        transfers_[pad].memory);
}

void Recorder::opens_row(uint32_t bank, int64_t row, int64_t at, int64_t ready) {
    add(first_bank_ + bank, SliceKind::OpenRow, at, ready - at, -1, 0, static_cast<uint32_t>(row));
}

void Recorder::serves_beat(uint32_t bank, uint32_t address, bool write, int master, int64_t at, int64_t busy) {
    add(first_bank_ + bank, write ? SliceKind::WriteBeat : SliceKind::ReadBeat, at, busy, -1, static_cast<uint8_t>(master),
        address);
}

void Recorder::halted(int64_t halt, int64_t last) {
    if (last > halt) {
        waits(-1, Stall::Drain, halt + 1, last + 1);
    }
}

}  // namespace atalla
