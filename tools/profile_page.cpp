#include "tools/profile_page.h"

#include <map>
#include <ostream>

#include <nlohmann/json.hpp>

#include "isa/write_file.h"
#include "simulator/profile/labels.h"
#include "simulator/profile/profile_text.h"
#include "tools/profile_page_html.h"

namespace atalla {

namespace {

using Json = nlohmann::ordered_json;

// Texts by number, so that each is in the page once.
class Texts {
public:
    int64_t number_of(const std::string &text) {
        const auto [found, is_new] = numbers_.emplace(text, static_cast<int64_t>(list_.size()));
        if (is_new) list_.push_back(text);
        return found->second;
    }
    const Json &list() const { return list_; }

private:
    std::map<std::string, int64_t> numbers_;
    Json list_ = Json::array();
};

// A track's slices as four lists of equal length: begin (as the distance from the slice before), cycles, name, origin.
Json tracks_json(const Recording &recording, const Program &program, Texts &texts) {
    Json tracks = Json::array();
    for (const Track &track : recording.tracks)
        tracks.push_back({{"name", track.name},
                          {"begin", Json::array()},
                          {"cycles", Json::array()},
                          {"text", Json::array()},
                          {"origin", Json::array()},
                          {"kind", Json::array()}});
    std::vector<int64_t> last(recording.tracks.size(), recording.from);
    for (const Slice &slice : recording.slices) {
        Json &track = tracks[slice.track];
        track["begin"].push_back(slice.begin - last[slice.track]);
        last[slice.track] = slice.begin;
        track["cycles"].push_back(slice.cycles);
        track["text"].push_back(texts.number_of(slice_name(slice, recording.tracks[slice.track], program)));
        track["origin"].push_back(texts.number_of(origin_of(slice.packet, program)));
        track["kind"].push_back(static_cast<int>(slice.kind));
    }
    return tracks;
}

Json overview_json(const Overview &overview) {
    Json stretches = Json::array();
    for (const Overview::Stretch &stretch : overview.stretches) {
        Json row = {stretch.packets};
        for (const uint32_t stall : stretch.stalls) row.push_back(stall);
        stretches.push_back(std::move(row));
    }
    return {{"cycles_each", overview.cycles_each}, {"stretches", std::move(stretches)}};
}

// JSON that may stand in a page: no text can end the script element.
std::string script_text(const Json &json) {
    std::string text;
    for (const char c : json.dump()) {
        if (c == '<')
            text += "\\u003c";
        else
            text += c;
    }
    return text;
}

}  // namespace

void write_profile_page(const Subject &subject, const Profile &profile, const Recording &recording,
                        const std::filesystem::path &file) {
    Texts texts;
    Json data = {{"title", subject.title}, {"machine", subject.machine.name}, {"from", recording.from}, {"end", recording.end}};
    data["profile"] = profile_json(profile, subject.machine, subject.program);
    data["tracks"] = tracks_json(recording, subject.program, texts);
    data["texts"] = texts.list();
    data["overview"] = overview_json(recording.overview);
    Json &causes = data["causes"] = Json::array();
    for (int cause = 0; cause < stall_causes; cause++) causes.push_back(stall_name(static_cast<Stall>(cause)));
    write_file(file, [&](std::ostream &out) { out << profile_page_head << script_text(data) << profile_page_tail; });
}

}  // namespace atalla
