// A recording of a timed run: which unit, pad, channel and bank was busy when, and with what.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "simulator/timing/observer.h"

namespace atalla {

// What slices lie on, in the order in which they are shown.
enum class TrackKind : uint8_t { Issue, Unit, Vlsu, Array, PadRead, PadWrite, Dma, DramBank };

struct Track {
    TrackKind kind = TrackKind::Issue;
    int index = 0;     // of the unit (timing::Source), pad or bank
    std::string name;  // "ALU", "pad 2 read"
};

// What a slice shows.
enum class SliceKind : uint8_t {
    Packet,     // a packet issues
    Wait,       // the packet waits; `detail` is the Stall
    Operation,  // slot `slot` of the packet
    Access,     // a pad reads or writes the row `detail` for a vreg.* of the packet
    Transfer,   // the same for the packet's scpad.*
    OpenRow,    // `detail` is the row
    ReadBeat,   // `detail` is the address, `slot` the master of the bus
    WriteBeat,
};

// A stretch of time on a track. Slices of one track do not overlap.
struct Slice {
    int64_t begin = 0;  // cycle
    uint32_t cycles = 0;
    uint32_t detail = 0;  // of an operation: the byte, row or memory address that it names
    int32_t packet = -1;  // index in Program::packets; -1: none
    uint16_t track = 0;   // index in Recording::tracks
    SliceKind kind = SliceKind::Packet;
    uint8_t slot = 0;  // among the packet's operations, nops left out
};

// Stall cycles and packets over stretches of equal length: the whole run at a glance.
struct Overview {
    int64_t cycles_each = 64;
    struct Stretch {
        uint32_t packets = 0;
        std::array<uint32_t, stall_causes> stalls{};
    };
    std::vector<Stretch> stretches;
};

struct RecordOptions {
    // Slices are kept that begin in the cycles from .. to-1; the overview always covers the whole run.
    int64_t from = 0, to = INT64_MAX;
    // No more slices than this: what comes later is left out.
    size_t most_slices = 4'000'000;
};

struct Recording {
    std::vector<Track> tracks;
    std::vector<Slice> slices;  // in the order in which they became known
    Overview overview;
    int64_t from = 0, end = 0;  // what is recorded without a gap: cycles from .. end-1
    bool cut = false;           // there were more than most_slices
};

// Records while a program runs. `slices` ascend by begin within each track.
class Recorder : public timing::Observer {
public:
    Recorder(const Machine &machine, const RecordOptions &options);

    // The recording, once the run has ended.
    Recording take();

    void waits(int32_t packet, Stall cause, int64_t from, int64_t to) override;
    void issues(int32_t packet, int64_t at, const MachineState &state) override;
    void operation(const timing::Issued &issued) override;
    void result(timing::Source, int64_t) override {}
    void access(int64_t issued, int64_t end, bool store, bool missed) override;
    void pad_starts(uint32_t pad, bool write, bool of_transfer, uint32_t row, int32_t packet, int64_t at, int64_t busy,
                    int64_t lands) override;
    void transfer_ends(uint32_t pad, int32_t packet, int64_t issued, int64_t end) override;
    void opens_row(uint32_t bank, int64_t row, int64_t at, int64_t ready) override;
    void serves_beat(uint32_t bank, uint32_t address, bool write, int master, int64_t at, int64_t busy) override;
    void halted(int64_t halt, int64_t last) override;

private:
    void add_track(TrackKind kind, int index, std::string name);
    void add(size_t track, SliceKind kind, int64_t begin, int64_t cycles, int32_t packet, uint8_t slot, uint32_t detail);
    Overview::Stretch &stretch_of(int64_t cycle);

    const RecordOptions options_;
    Recording recording_;
    size_t first_unit_ = 0, first_vlsu_ = 0, array_ = 0, first_read_ = 0, first_write_ = 0, first_dma_ = 0, first_bank_ = 0;
    int64_t pad_count_;
    timing::Issued last_access_{};               // the scalar access under way
    std::array<timing::Issued, 4> transfers_{};  // by pad
    int64_t last_seen_ = 0;
    size_t last_wait_ = SIZE_MAX;  // the slice that a wait goes on in
};

}  // namespace atalla
