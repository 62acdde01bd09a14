#include "tests/graph_import/fixtures.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "isa/error.h"
#include "tests/support/source_path.h"

namespace atalla {

namespace {

DType dtype_named(const std::string &name) {
    for (int number = 0; number < 64; number++) {
        try {
            if (dtype_name(dtype_of_number(number)) == name) return dtype_of_number(number);
        } catch (const Error &) {
        }
    }
    throw Error("no element type " + name);
}

std::vector<HostTensor> read_tensors(const nlohmann::json &list, const std::byte *&at) {
    std::vector<HostTensor> tensors;
    for (const auto &entry : list) {
        HostTensor tensor = make_tensor(dtype_named(entry.at("dtype")), entry.at("sizes").get<std::vector<int64_t>>());
        const int64_t bytes = tensor.elements() * element_bytes(tensor.dtype);
        std::memcpy(mutable_data(tensor), at, bytes);
        at += bytes;
        tensors.push_back(std::move(tensor));
    }
    return tensors;
}

std::string folder() {
    const char *given = std::getenv("ATALLA_FIXTURES");
    return given ? given : source_path("tests/graph_import/fixtures").string();
}

}  // namespace

Fixtures::Fixtures(const std::string &archive)
    : archive_(std::make_shared<Archive>(Archive::open(folder() + "/" + archive + ".zip"))) {
    const Archive &zip = *archive_;
    const nlohmann::json manifest = nlohmann::json::parse(zip.read_text("manifest.json", 1 << 24));
    for (const auto &[name, entry] : manifest.items()) {
        const auto data = zip.read(name + "/data");
        const std::byte *at = data->data;
        Fixture fixture{name, read_tensors(entry.at("inputs"), at), read_tensors(entry.at("outputs"), at)};
        fixtures_.push_back(std::move(fixture));
    }
}

const Fixture &Fixtures::find(const std::string &name) const {
    for (const Fixture &fixture : fixtures_) {
        if (fixture.name == name) return fixture;
    }
    throw Error("no fixture " + name);
}

std::string Fixtures::file(const std::string &name) const { return archive_->read_text(name + "/model.pt2", 1 << 26); }

ImportedModel Fixtures::import(const Fixture &fixture) const {
    const std::string bytes = file(fixture.name);
    return import_model(std::as_bytes(std::span(bytes)), fixture.name);
}

double difference(const HostTensor &a, const HostTensor &b) {
    if (a.dtype != b.dtype || a.sizes != b.sizes) return INFINITY;
    const HostTensor x = dense_copy(a), y = dense_copy(b);
    double largest = 0, scale = 1;
    for (int64_t i = 0; i < x.elements(); i++) {
        const double u = element_as_double(x, i), v = element_as_double(y, i);
        if (std::isnan(u) && std::isnan(v)) continue;
        if (u == v) continue;
        if (!std::isfinite(u) || !std::isfinite(v)) return INFINITY;
        largest = std::max(largest, std::fabs(u - v));
        scale = std::max({scale, std::fabs(u), std::fabs(v)});
    }
    return largest / scale;
}

}  // namespace atalla
