#include "runtime/checksum.h"

#include "isa/checksum.h"
#include "isa/error.h"

namespace atalla {

namespace {

constexpr int first_minor = 3;

const uint8_t *field_of(const loadable::Model &model) {
    return reinterpret_cast<const flatbuffers::Table &>(model).GetAddressOf(loadable::Model::VT_CHECKSUM);
}

size_t offset_of(const uint8_t *field, std::span<const uint8_t> bytes) { return static_cast<size_t>(field - bytes.data()); }

}  // namespace

std::vector<uint8_t> loadable_bytes(const loadable::ModelT &tables) {
    uint64_t constants = 0;
    for (const auto &constant : tables.constants) constants += constant->data.size();
    constexpr size_t room_for_the_rest = 1 << 20;  // grows if it must
    flatbuffers::FlatBufferBuilder builder(constants + room_for_the_rest);
    builder.ForceDefaults(true);  // the checksum's place is there whatever it holds
    builder.Finish(loadable::Model::Pack(builder, &tables), loadable::ModelIdentifier());
    std::vector<uint8_t> bytes(builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize());
    const size_t at = offset_of(field_of(*loadable::GetModel(bytes.data())), bytes);
    flatbuffers::WriteScalar(bytes.data() + at, checksum_around(bytes, at));
    return bytes;
}

void check_checksum(std::span<const uint8_t> bytes, const loadable::Model &model) {
    const uint8_t *field = field_of(model);
    if (field == nullptr) {
        if (model.minor() < first_minor) return;
        throw Error("the loadable is damaged: its checksum is missing");
    }
    if (checksum_around(bytes, offset_of(field, bytes)) != model.checksum())
        throw Error(
            "the loadable is damaged: its bytes do not have its checksum; copy the file again, or compile the model again");
}

}  // namespace atalla
