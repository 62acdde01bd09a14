#include "simulator/semantics.h"

#include <algorithm>
#include <functional>

#include "simulator/semantics_memory.h"
#include "simulator/semantics_scalar.h"
#include "simulator/semantics_vector.h"
#include "simulator/simulator.h"

namespace atalla {

DecodedPacket decode_packet(const PlacedPacket &placed) {
    DecodedPacket packet;
    packet.address = placed.address;
    for (const Instruction &slot : placed.packet) {
        if (!slot.is_nop()) {
            packet.slot[packet.count++] = slot;
        }
    }
    return packet;
}

namespace {

using namespace semantics;

[[noreturn, gnu::cold, gnu::noinline]] void refuse_opcode(Opcode op) {
    refuse("50", fmt::format("opcode 0x{:02X} cannot be executed", static_cast<unsigned>(op)));
}

template <MachineModel model>
void execute(S &s, const I &i, const DecodedPacket &packet, PacketOutcome &out) {
    const std::plus<float> plus;
    const std::minus<float> minus;
    const std::multiplies<float> times;
    const uint32_t a = s.x[i.a], b = s.x[i.b];
    // clang-format off
    switch (i.op) {
    ATALLA_INTEGER_CASES
    case Opcode::div_s: return set_rd(s, i, divide<model>(a, b));

    case Opcode::bfts_s: return bfts_s<model>(s, i);
    case Opcode::add_bf: return add_bf<model>(s, i);
    case Opcode::sub_bf: return sub_bf<model>(s, i);
    case Opcode::mul_bf: return mul_bf<model>(s, i);
    case Opcode::rcp_bf: return rcp_bf<model>(s, i);
    case Opcode::slt_bf: return slt_bf(s, i);
    case Opcode::sqrt_bf: return sqrt_bf(s, i);
    case Opcode::stbf_s: return stbf_s(s, i);

    case Opcode::beq_s: return branch(s, i, packet, out, a == b);
    case Opcode::bne_s: return branch(s, i, packet, out, a != b);
    case Opcode::blt_s: return branch(s, i, packet, out, less<model>(a, b));
    case Opcode::bge_s: return branch(s, i, packet, out, !less<model>(a, b));
    case Opcode::bgt_s: return branch(s, i, packet, out, less<model>(b, a));
    case Opcode::ble_s: return branch(s, i, packet, out, !less<model>(b, a));
    case Opcode::jal: return jal(s, i, packet, out);
    case Opcode::jalr: return jalr<model>(s, i, packet, out);

    case Opcode::lw_s: return lw_s<model>(s, i);
    case Opcode::sw_s: return sw_s<model>(s, i);
    case Opcode::lhw_s: return lhw_s<model>(s, i);
    case Opcode::shw_s: return shw_s<model>(s, i);

    case Opcode::add_vv: return arithmetic_vv<model>(s, i, plus);
    case Opcode::sub_vv: return arithmetic_vv<model>(s, i, minus);
    case Opcode::mul_vv: return arithmetic_vv<model>(s, i, times);
    case Opcode::add_vs: return arithmetic_vs<model>(s, i, plus);
    case Opcode::sub_vs: return arithmetic_vs<model>(s, i, minus);
    case Opcode::mul_vs: return arithmetic_vs<model>(s, i, times);
    case Opcode::expi_vi: return expi_vi<model>(s, i);
    case Opcode::rsum_vi: return rsum_vi<model>(s, i);
    case Opcode::rmin_vi: return rmin_vi<model>(s, i);
    case Opcode::rmax_vi: return rmax_vi<model>(s, i);
    case Opcode::lw_vi: return lw_vi<model>(s, i);
    case Opcode::gemm_vv: return gemm_vv<model>(s, i, packet);

    case Opcode::mgt_mvv: return compare_mvv<model>(s, i, greater_than);
    case Opcode::mlt_mvv: return compare_mvv<model>(s, i, less_than);
    case Opcode::meq_mvv: return compare_mvv<model>(s, i, equal);
    case Opcode::mneq_mvv: return compare_mvv<model>(s, i, not_equal);
    case Opcode::mgt_mvs: return compare_mvs<model>(s, i, greater_than);
    case Opcode::mlt_mvs: return compare_mvs<model>(s, i, less_than);
    case Opcode::meq_mvs: return compare_mvs<model>(s, i, equal);
    case Opcode::mneq_mvs: return compare_mvs<model>(s, i, not_equal);

    case Opcode::vreg_ld: return vreg_ld<model>(s, i);
    case Opcode::vreg_st: return vreg_st<model>(s, i);
    case Opcode::scpad_ld: return scpad_ld<model>(s, i);
    case Opcode::scpad_st: return scpad_st<model>(s, i);
    case Opcode::vmov_vts: return vmov_vts<model>(s, i);
    case Opcode::mv_mts: return mv_mts(s, i);
    case Opcode::mv_stm: return mv_stm<model>(s, i);

    case Opcode::nop_s: return;
    case Opcode::halt_s: out.halted = true; return;
    case Opcode::tpop_vi:
    case Opcode::tpus_vi: break;
    }
    // clang-format on
    refuse_opcode(i.op);
}

// What is left of an instruction where lanes are skipped.
void execute_scalars(S &s, const I &i, const DecodedPacket &packet, PacketOutcome &out) {
    switch (info(i.op).unit) {
        case Unit::Alu:
        case Unit::Mul:
        case Unit::Exp:
        case Unit::Reduce:
        case Unit::Array:
            return;
        case Unit::Vlsu:
            return i.op == Opcode::vreg_ld ? count_vreg_ld(s, i) : count_vreg_st(s, i);
        case Unit::Sdma:
            return i.op == Opcode::scpad_ld ? skip_scpad_ld(s, i) : skip_scpad_st(s, i);
        case Unit::MoveToScalar:
            if (i.a == 0) break;
            refuse("lanes", fmt::format("{} reads what is not computed", info(i.op).mnemonic));
        case Unit::Ex5:
            if (i.op == Opcode::lw_s || i.op == Opcode::lhw_s) {
                check_not_skipped(s, i, i.op == Opcode::lw_s ? 4 : 2);
            }
            break;
        default:
            break;
    }
    execute<Hardware>(s, i, packet, out);
}

template <MachineModel model, LaneValues lanes = LaneValues::Computed>
PacketOutcome execute_slots(MachineState &state, const DecodedPacket &packet) {
    PacketOutcome out{int64_t{packet.address} + packet_bytes, false, false};
    for (int slot = 0; slot < packet.count; slot++) {
        if constexpr (lanes == LaneValues::Computed) {
            execute<model>(state, packet.slot[slot], packet, out);
        } else {
            execute_scalars(state, packet.slot[slot], packet, out);
        }
    }
    return out;
}

template <MachineModel model, LaneValues lanes = LaneValues::Computed>
PacketOutcome execute_straight(MachineState &state, std::span<const DecodedPacket> packets, uint64_t *issues, uint64_t &left) {
    const size_t most = std::min<uint64_t>(packets.size(), left);
    for (size_t index = 0;; index++) {
        state.pc = packets[index].address;
        const PacketOutcome out = execute_slots<model, lanes>(state, packets[index]);
        issues[index]++;
        if (out.halted || index + 1 == most || out.next_pc != packets[index + 1].address) {
            left -= index + 1;
            return out;
        }
    }
}

// The same code by the lanes of an instruction: flattened, so that all of it is compiled for them.
#define ATALLA_PACKET_CODE(width, ...)                                                                             \
    template <MachineModel model>                                                                                  \
    struct PacketCode##width {                                                                                     \
        [[__VA_ARGS__]] static PacketOutcome execute(MachineState &state, const DecodedPacket &packet) {           \
            return execute_slots<model>(state, packet);                                                            \
        }                                                                                                          \
        [[__VA_ARGS__]] static PacketOutcome straight(MachineState &state, std::span<const DecodedPacket> packets, \
                                                      uint64_t *issues, uint64_t &left) {                          \
            return execute_straight<model>(state, packets, issues, left);                                          \
        }                                                                                                          \
        [[__VA_ARGS__]] static void rows(MachineState &state) { finish_rows(state); }                              \
        static constexpr PacketCode code{execute, straight, rows};                                                 \
    }
#ifdef __x86_64__
ATALLA_PACKET_CODE(16, gnu::target("avx512f,avx512bw,avx512dq,avx512vl"), gnu::flatten);
ATALLA_PACKET_CODE(8, gnu::target("avx2"), gnu::flatten);
#endif
ATALLA_PACKET_CODE(4, gnu::flatten);

}  // namespace

template <MachineModel model>
PacketCode packet_code([[maybe_unused]] int width) {
#ifdef __x86_64__
    if (width == 16) {
        return PacketCode16<model>::code;
    }
    if (width == 8) {
        return PacketCode8<model>::code;
    }
#endif
    return PacketCode4<model>::code;
}
template PacketCode packet_code<MachineModel::Hardware>(int);
template PacketCode packet_code<MachineModel::Functional>(int);

const PacketCode hardware_code = packet_code<MachineModel::Hardware>(widest_vectors());
const PacketCode functional_code = packet_code<MachineModel::Functional>(widest_vectors());
const PacketCode scalar_code{execute_slots<Hardware, LaneValues::Skipped>, execute_straight<Hardware, LaneValues::Skipped>,
                             [](MachineState &) {}};

}  // namespace atalla
