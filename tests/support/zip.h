// Archives that tests make.
#pragma once

#include <zip.h>

#include <map>
#include <string>

namespace atalla::testing_zip {

using Entries = std::map<std::string, std::string>;  // by name

inline std::string zipped(const Entries &entries, bool deflated = false) {
    zip_error_t error;
    zip_error_init(&error);
    zip_source_t *buffer = zip_source_buffer_create(nullptr, 0, 0, &error);
    zip_source_keep(buffer);
    zip_t *zip = zip_open_from_source(buffer, ZIP_TRUNCATE, &error);
    for (const auto &[name, data] : entries) {
        const zip_int64_t index =
            zip_file_add(zip, name.c_str(), zip_source_buffer(zip, data.data(), data.size(), 0), ZIP_FL_ENC_UTF_8);
        zip_set_file_compression(zip, static_cast<zip_uint64_t>(index), deflated ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 1);
    }
    zip_close(zip);
    zip_stat_t stat;
    zip_source_stat(buffer, &stat);
    std::string bytes(stat.size, '\0');
    zip_source_open(buffer);
    zip_source_read(buffer, bytes.data(), bytes.size());
    zip_source_close(buffer);
    zip_source_free(buffer);
    return bytes;
}

}  // namespace atalla::testing_zip
