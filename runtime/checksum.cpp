#include "runtime/checksum.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "isa/error.h"

namespace atalla {

namespace {

constexpr int first_minor = 3;

uint64_t checksum(std::span<const uint8_t> bytes, const uint8_t *field) {
    const uint8_t *behind = field + sizeof(uint64_t);
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    XXH3_64bits_update(&state, bytes.data(), static_cast<size_t>(field - bytes.data()));
    XXH3_64bits_update(&state, behind, static_cast<size_t>(bytes.data() + bytes.size() - behind));
    return XXH3_64bits_digest(&state);
}

const uint8_t *field_of(const loadable::Model &model) {
    return reinterpret_cast<const flatbuffers::Table &>(model).GetAddressOf(loadable::Model::VT_CHECKSUM);
}

}  // namespace

std::vector<uint8_t> loadable_bytes(const loadable::ModelT &tables) {
    uint64_t constants = 0;
    for (const auto &constant : tables.constants) constants += constant->data.size();
    constexpr size_t room_for_the_rest = 1 << 20;   // grows if it must
    flatbuffers::FlatBufferBuilder builder(constants + room_for_the_rest);
    builder.ForceDefaults(true);                    // the checksum's place is there whatever it holds
    builder.Finish(loadable::Model::Pack(builder, &tables), loadable::ModelIdentifier());
    std::vector<uint8_t> bytes(builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize());
    const uint8_t *field = field_of(*loadable::GetModel(bytes.data()));
    flatbuffers::WriteScalar(bytes.data() + (field - bytes.data()), checksum(bytes, field));
    return bytes;
}

void check_checksum(std::span<const uint8_t> bytes, const loadable::Model &model) {
    const uint8_t *field = field_of(model);
    if (field == nullptr) {
        if (model.minor() < first_minor) return;
        throw Error("the loadable is damaged: its checksum is missing");
    }
    if (checksum(bytes, field) != model.checksum())
        throw Error("the loadable is damaged: its bytes do not have its checksum; copy the file again, or compile the model again");
}

}  // namespace atalla
