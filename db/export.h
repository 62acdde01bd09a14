// The canonical text of a tuning database: one JSON object a line.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <variant>

#include "db/database.h"

namespace atalla {

struct MachineName {
    std::string fingerprint;
    std::string name;
};

// First line of an export, which names the format and its version.
std::string export_header();

std::string export_line(const MachineName &machine);
std::string export_line(const TuningRun &run);
std::string export_line(const Certificate &certificate);
std::string export_line(const StoredTrial &trial);
// A trial as an object, with the names that the line has.
nlohmann::json trial_json(const StoredTrial &trial);

// Throws Error if the line is not the header of a format known here.
void check_header(std::string_view line);
// Inverse of export_line; Error if the line is not one.
std::variant<MachineName, TuningRun, Certificate, StoredTrial> parse_line(std::string_view line);

}  // namespace atalla
