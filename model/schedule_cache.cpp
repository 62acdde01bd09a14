#include "model/schedule_cache.h"

#include <cstdlib>
#include <fstream>

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "generators/evaluate.h"
#include "isa/checksum.h"

namespace atalla {

namespace {

nlohmann::json to_json(const std::string &key, const KeptSchedule &schedule) {
    return {{"key", key},
            {"from", schedule.from},
            {"point", schedule.point},
            {"cycles", schedule.cycles},
            {"failure", schedule.failure},
            {"verified", schedule.verified}};
}

std::string name_of(const std::string &program) { return fmt::format("{:016x}", checksum(program)); }

}  // namespace

ScheduleCache::ScheduleCache(std::filesystem::path file) : file_(std::move(file)) {
    std::ifstream stream(file_);
    for (std::string line; std::getline(stream, line);) {
        const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
        try {
            if (json.contains("program"))
                programs_[json.at("program")] = json.at("cycles");
            else
                known_[json.at("key")] = {json.at("from"), json.at("point").get<Point>(), json.at("cycles"), json.at("failure"),
                                          json.at("verified")};
        } catch (const nlohmann::json::exception &) {
            // A line that another process did not finish.
        }
    }
}

const KeptSchedule *ScheduleCache::find(const std::string &key) const {
    const auto found = known_.find(key);
    return found == known_.end() ? nullptr : &found->second;
}

void ScheduleCache::keep(const std::string &key, const KeptSchedule &schedule) {
    known_[key] = schedule;
    append(to_json(key, schedule).dump() + "\n");
}

std::optional<int64_t> ScheduleCache::cycles(const std::string &program) const {
    const auto found = programs_.find(name_of(program));
    return found == programs_.end() ? std::nullopt : std::optional(found->second);
}

void ScheduleCache::keep_cycles(const std::string &program, int64_t cycles) {
    const std::string name = name_of(program);
    programs_[name] = cycles;
    append(nlohmann::json{{"program", name}, {"cycles", cycles}}.dump() + "\n");
}

void ScheduleCache::append(const std::string &line) const {
    std::error_code ignored;
    std::filesystem::create_directories(file_.parent_path(), ignored);
    // One write of a whole line at the end: lines of processes do not mix.
    const int file = open(file_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (file < 0) return;
    [[maybe_unused]] const ssize_t written = write(file, line.data(), line.size());
    close(file);
}

std::filesystem::path default_schedule_cache(const std::string &machine) {
    const auto environment = [](const char *name) {
        const char *value = std::getenv(name);
        return std::filesystem::path(value ? value : "");
    };
    std::filesystem::path folder = environment("XDG_CACHE_HOME");
    if (!folder.is_absolute()) {
        if (!environment("HOME").is_absolute()) return {};
        folder = environment("HOME") / ".cache";
    }
    folder /= std::filesystem::path("atalla-tune") / "schedules";
    std::error_code unknown;
    // The drafts are no part of the compiler's fingerprint.
    const auto built = std::filesystem::last_write_time("/proc/self/exe", unknown).time_since_epoch().count();
    if (unknown) return {};
    const std::filesystem::path file = folder / fmt::format("{}-{}-{:x}.jsonl", machine, compiler_fingerprint(), built);
    if (!std::filesystem::exists(file, unknown))
        for (const auto &entry : std::filesystem::directory_iterator(folder, unknown))
            if (std::filesystem::file_time_type::clock::now() - entry.last_write_time(unknown) > std::chrono::days(30))
                std::filesystem::remove(entry.path(), unknown);
    return file;
}

}  // namespace atalla
