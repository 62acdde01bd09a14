// Fuzz target of loadables: what is accepted can be described and given inputs.
#include "isa/error.h"
#include "runtime/context.h"
#include "runtime/describe.h"
#include "tests/fuzz/fuzz.h"

using namespace atalla;

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    try {
        const std::shared_ptr<const Model> model = Model::from_bytes({bytes, size}, "fuzz.atl");
        require(!describe_text(*model).empty(), "an accepted loadable can be described");
        require(!model->specializations().empty(), "an accepted loadable has a specialization");
        for (const Model::Specialization &specialization : model->specializations())
            require(specialization.steps.size() == specialization.table->steps()->size(), "every step is read");
    } catch (const Error &) {
    }
    return 0;
}
