// `atalla db verify`: simulates stored trials again.
#pragma once

#include <cstdint>
#include <filesystem>
#include <ostream>
#include <string>

namespace atalla {

struct VerifyDatabaseOptions {
    std::filesystem::path file;
    std::string machine;       // name or file of the only machine to check; empty: the shipped ones
    std::string op, workload;  // the only ones to check; empty: all
    int64_t sample = 0;        // trials, 0: all
    uint64_t seed = 1;
    bool winners_only = false;
    bool json = false;
};

// Writes the report. Error if a trial does not repeat.
void verify_database_file(const VerifyDatabaseOptions &options, std::ostream &out);

}  // namespace atalla
