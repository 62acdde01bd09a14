#include "db/export.h"

#include <fmt/format.h>

#include "db/bounded_json.h"
#include "isa/error.h"

namespace atalla {

namespace {

using nlohmann::json;

constexpr const char *format_name = "atalla-tune database";
constexpr int format_version = 2, oldest_version = 1;  // version 1 has no certificates

// A workload that is canonical JSON is exported as the object that it is; any other text as a string.
json workload_json(const std::string &text) {
    try {
        const json parsed = parse_bounded_json(text);
        return parsed.is_object() && parsed.dump() == text ? parsed : json(text);
    } catch (const Error &) {
        return text;
    }
}

std::string workload_text(const json &workload) { return workload.is_object() ? workload.dump() : workload.get<std::string>(); }

json key_json(const char *kind, const TrialKey &key) {
    return {{"kind", kind},
            {"op", key.op},
            {"workload", workload_json(key.workload)},
            {"machine", key.machine},
            {"compiler", key.compiler}};
}

TrialKey parse_key(const json &line) {
    return {line.at("op").get<std::string>(), workload_text(line.at("workload")), line.at("machine").get<std::string>(),
            line.at("compiler").get<std::string>()};
}

// The library converts any number to any type, and a large float to an integer without a check.
int64_t integer(const json &line, const char *name) {
    const json &value = line.at(name);
    if (!value.is_number_integer() || (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX})) {
        throw Error(fmt::format("'{}' is {}, not a 64-bit integer", name, value.dump()));
    }
    return value.get<int64_t>();
}

uint64_t natural(const json &line, const char *name) {
    const json &value = line.at(name);
    if (!value.is_number_unsigned()) {
        throw Error(fmt::format("'{}' is {}, not a natural number of 64 bits", name, value.dump()));
    }
    return value.get<uint64_t>();
}

const char *verification_name(Verification verification) {
    switch (verification) {
        case Verification::Verified:
            return "verified";
        case Verification::Differs:
            return "differs";
        case Verification::Unverified:
            break;
    }
    return "unverified";
}

Verification parse_verification(const std::string &name) {
    for (const auto value : {Verification::Verified, Verification::Differs, Verification::Unverified}) {
        if (name == verification_name(value)) {
            return value;
        }
    }
    throw Error(fmt::format("'{}' is not a verification (verified, differs, unverified)", name));
}

StoredTrial parse_trial(const json &line) {
    StoredTrial stored;
    stored.key = parse_key(line);
    stored.trial.point = line.at("point").get<Point>();
    stored.trial.status = parse_status(line.at("status").get<std::string>());
    stored.trial.cycles = integer(line, "cycles");
    if (stored.trial.status == Trial::Ok && stored.trial.cycles <= 0) {
        throw Error(fmt::format("a trial that is ok took {} cycles", stored.trial.cycles));
    }
    stored.trial.reason = line.at("reason").get<std::string>();
    stored.trial.counters = line.at("counters");
    if (!stored.trial.counters.is_null() && !stored.trial.counters.is_object()) {
        throw Error(fmt::format("the counters of a trial are an object or null, not {}", stored.trial.counters.type_name()));
    }
    stored.trial.seconds_lower = line.at("seconds_lower").get<double>();
    stored.trial.seconds_simulate = line.at("seconds_simulate").get<double>();
    stored.verification = parse_verification(line.at("verification").get<std::string>());
    stored.differs = line.at("differs").get<std::string>();
    stored.run = line.at("run").get<std::string>();
    stored.when = integer(line, "when");
    return stored;
}

TuningRun parse_run(const json &line) {
    TuningRun run;
    run.key = parse_key(line);
    run.id = line.at("id").get<std::string>();
    run.host = line.at("host").get<std::string>();
    run.strategy = line.at("strategy").get<std::string>();
    run.seed = natural(line, "seed");
    run.bound_cycles = integer(line, "bound_cycles");
    run.started = integer(line, "started");
    run.ended = integer(line, "ended");
    run.outcome = line.at("outcome").get<std::string>();
    return run;
}

Certificate parse_certificate(const json &line) {
    Certificate certificate{parse_key(line), integer(line, "bound_cycles"), line.at("bound_by").get<std::string>(),
                            integer(line, "least_cycles")};
    if (certificate.bound_cycles < 0 || certificate.least_cycles < 0) {
        throw Error("a certificate proves a negative number of cycles");
    }
    return certificate;
}

}  // namespace

std::string export_header() { return json{{"kind", "header"}, {"format", format_name}, {"version", format_version}}.dump(); }

std::string export_line(const MachineName &machine) {
    return json{{"kind", "machine"}, {"fingerprint", machine.fingerprint}, {"name", machine.name}}.dump();
}

std::string export_line(const TuningRun &run) {
    json line = key_json("run", run.key);
    line.update({{"id", run.id},
                 {"host", run.host},
                 {"strategy", run.strategy},
                 {"seed", run.seed},
                 {"bound_cycles", run.bound_cycles},
                 {"started", run.started},
                 {"ended", run.ended},
                 {"outcome", run.outcome}});
    return line.dump();
}

std::string export_line(const Certificate &certificate) {
    json line = key_json("certificate", certificate.key);
    line.update({{"bound_cycles", certificate.bound_cycles},
                 {"bound_by", certificate.bound_by},
                 {"least_cycles", certificate.least_cycles}});
    return line.dump();
}

json trial_json(const StoredTrial &stored) {
    const Trial &trial = stored.trial;
    json line = key_json("trial", stored.key);
    line.update({{"point", trial.point},
                 {"status", status_name(trial.status)},
                 {"cycles", trial.cycles},
                 {"reason", trial.reason},
                 {"counters", trial.counters},
                 {"seconds_lower", trial.seconds_lower},
                 {"seconds_simulate", trial.seconds_simulate},
                 {"verification", verification_name(stored.verification)},
                 {"differs", stored.differs},
                 {"run", stored.run},
                 {"when", stored.when}});
    return line;
}

std::string export_line(const StoredTrial &trial) { return trial_json(trial).dump(); }

void check_header(std::string_view line) {
    const json header = line.empty() ? json() : parse_bounded_json(line);
    if (!header.is_object() || header.value("format", json()) != format_name) {
        throw Error("the text does not begin with the header of a tuning database export");
    }
    const json version = header.value("version", json());
    if (!version.is_number_integer() || version < oldest_version || version > format_version) {
        throw Error(
            fmt::format("the export has format version {}, this program knows versions {} to {}: update the older of the two",
                        version.dump(), oldest_version, format_version));
    }
}

std::variant<MachineName, TuningRun, Certificate, StoredTrial> parse_line(std::string_view text) {
    try {
        const json line = parse_bounded_json(text);
        const auto kind = line.at("kind").get<std::string>();
        if (kind == "machine") {
            return MachineName{line.at("fingerprint").get<std::string>(), line.at("name").get<std::string>()};
        }
        if (kind == "run") {
            return parse_run(line);
        }
        if (kind == "certificate") {
            return parse_certificate(line);
        }
        if (kind == "trial") {
            return parse_trial(line);
        }
        throw Error(fmt::format("'{}' is not a kind of line (machine, run, certificate, trial)", kind));
    } catch (const json::exception &error) {
        throw Error(fmt::format("not a line of an export: {}", error.what()));
    }
}

}  // namespace atalla
