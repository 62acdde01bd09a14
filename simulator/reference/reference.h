// The timing model written for reading: the rules of section 17 of the microarchitecture reference, one by one. Every cycle is
// visited, every unit takes its turn, every queue is a list that is searched, and nothing is remembered that a rule does
// not mention. Slow, and shares nothing with simulator/timing but the values that packets compute.
#pragma once

#include <algorithm>
#include <deque>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "isa/packet_checker.h"
#include "simulator/semantics.h"
#include "simulator/simulator.h"

namespace atalla {

// What run_timed() gives, by this model: the same cycles, counters and state. RunOptions::observer is not called.
RunResult run_reference(const Machine &machine, const Program &program, MachineState &state, const RunOptions &options = {});

namespace reference {

// A refusal of a packet that need not be the one that issues.
struct PacketRefusal {
    size_t packet;  // index in the program
    Refusal refusal;
};

class Model {
public:
    Model(const Machine &machine, const Program &program, MachineState &state, const RunOptions &options);

    RunResult run();

private:
    using Cycle = int64_t;
    static constexpr Cycle unknown = INT64_MAX, past = -1000000;

    struct Result {
        Cycle offer;
        Register reg;
    };
    struct Beat {
        uint32_t address;
        bool write;
        int master;
        int row;
    };
    struct Request {
        bool write;
        uint32_t row;
        bool dma;
        uint64_t order;
        Cycle present;
        Register destination;
        size_t packet;
    };
    struct Engine {
        bool busy = false;
        bool load = false;
        DmaTile tile{};
        Register base{};
        uint64_t order = 0;
        size_t packet = 0;
        Cycle issued = 0, end = unknown;
        std::deque<Beat> to_launch;
        std::vector<int> beats_of_row, launched_of_row, arrived_of_row;
        std::vector<Cycle> complete;  // all beats of the row arrived in this cycle
        std::vector<Cycle> held;      // store: the row may be sent from here
        int launched = 0, arrived = 0, accepted = 0, started = 0;
        Cycle last_accept = past;
    };
    struct PadState {
        std::deque<Request> vlsu, reads, writes;
        Cycle last_read = past, last_write = past;
        int loads_not_written_back = 0, stores_not_started = 0;
    };
    struct Line {
        int64_t number = -1;
        std::vector<Cycle> usable;
    };
    struct DataLine {
        int64_t number = -1;
        bool dirty = false;
    };
    struct Set {
        std::vector<DataLine> ways;
        std::vector<bool> bits;
    };
    struct Bank {
        std::optional<int64_t> open;
        Cycle ready = past;
        int64_t served = 0;
    };
    struct Queued {
        Beat beat;
        uint64_t age;
    };
    struct Bus {
        std::deque<std::pair<Cycle, Beat>> requests;
    };
    struct InFlight {
        DmaTile tile;
        bool load;
    };
    struct Btb {
        int64_t pc = -1, target = 0;
    };

    const Machine &m;
    const Program &program;
    MachineState &state;
    const RunOptions &options;
    RunResult out;
    std::vector<uint64_t> issues;
    std::vector<StallCycles> stalls;
    std::map<int64_t, size_t> index_of;  // by address

    Cycle now = 0, last = past, halt_cycle = 0;
    bool halted = false;

    std::map<Register, Cycle> free_from;  // busy registers
    std::set<Register> held_by_transfer;
    // Units that offer results, by name in the order of rule 14.
    enum { EX5, EX1, EX4, EX3, EX2, MTS, VLSU0, ARRAY = VLSU0 + 4, REDUCE, ALU, MUL, EXP, UNITS };
    std::deque<Result> results[UNITS];
    Cycle accepts_from[UNITS] = {};
    std::map<int, Cycle> lost_in;
    std::deque<Cycle> rows_issued;  // those that may still matter
    int rows_not_written_back = 0;

    PadState pads[4];
    Engine engines[4];
    std::map<int64_t, Line> icache;  // by index
    std::vector<Set> dcache;
    std::vector<Btb> btb = std::vector<Btb>(1);
    bool access_pending = false;  // EX5 misses
    bool access_is_store = false;
    Cycle access_issued = 0, access_least = 0;
    int access_reads_left = 0;

    Bus instruction_bus, data_bus;
    int last_launched = 5;
    std::vector<Bank> banks;
    std::list<Queued> dram;
    std::multimap<Cycle, Beat> completing;
    uint64_t next_age = 0;
    Cycle last_column = past, last_write_column = past;
    std::map<int, Cycle> last_in_group;
    uint64_t outstanding = 0;        // beats launched and not completed
    uint64_t busy_since_column = 0;  // cycles since the last column command in which there were some

    size_t at = 0;
    Cycle look_up_at = 0;
    bool looked_up = false, registers_open = false;
    Cycle banks_open_at = 0;

    // reference.cpp
    void run_to_the_end();
    bool quiet() const;
    void count();

    // reference_issue.cpp
    void write_back();
    const PlacedPacket &packet() const { return program.packets[at]; }
    void stall(Stall cause) { stalls[at][static_cast<size_t>(cause)]++; }
    void go_to(int64_t address);
    void step_issue();
    void look_up();
    bool bytes_there();
    Cycle bank_wait() const;
    static int unit_of(const Instruction &slot);
    std::pair<Cycle, Cycle> timing_of(const Instruction &slot) const;
    static std::set<uint64_t> bytes_of(const DmaTile &tile);
    void check_hazards();
    void issue();
    void issue_slot(const Instruction &slot, uint32_t address, const DmaTile &tile);
    void go_on(const PacketOutcome &outcome);

    // reference_memory.cpp
    void arrivals();
    void end_transfer(Engine &engine, Cycle e);
    void start_transfer(const Instruction &slot, const DmaTile &tile);
    uint32_t scalar_address(const Instruction &slot) const { return state.x[slot.a] + static_cast<uint32_t>(slot.imm); }
    void access(const Instruction &slot, uint32_t address, const Operands &named);
    int follow(const Set &set, int low, int count, size_t node) const;
    void turn_away(Set &set, int low, int count, size_t node, int way);
    void request_line(int64_t number, bool write);
    void finish_access(Cycle issued, Cycle latency, bool store);
    void step_pad(int number);
    void check_order(int number, const Request &starting) const;
    bool engine_presents(const Engine &engine) const;
    void step_bus();
    bool may_launch(int master) const;
    Beat take(int master);
    int bank_of(const Beat &beat) const { return static_cast<int>(beat.address / m.dram.row_bytes % m.dram.banks); }
    int64_t row_of(const Beat &beat) const { return beat.address / m.dram.row_bytes / m.dram.banks; }
    void step_dram();
};

}  // namespace reference
}  // namespace atalla
