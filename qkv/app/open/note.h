// What the library reports to a front end while it works. Nothing in qkv/ prints.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "qkv/core/error.h"

namespace qkv::app {

/// Receives a remark for the user, such as an assumption about a model or the name of an unreadable file. Names in the
/// text are escaped (core/text.h), so it can be shown as it is; it has no line end at its end. May be empty.
using Note = std::function<void(const std::string& text)>;

/// True for a remark about files that contradict themselves, which a quiet front end shows, too.
inline bool IsWarning(const std::string& text) { return text.find("warning: ") != std::string::npos; }

inline void Notify(const Note& note, const std::string& text) {
  if (note) note(text);
}

/// Reports the assumptions and warnings about a model. source: the model.
inline void NotifyAssumptions(const std::string& source, const std::vector<std::string>& assumptions,
                              const Note& note) {
  for (const std::string& assumption : assumptions) {
    Notify(note, FormatShown("{}: {}{}", source, IsWarning(assumption) ? "" : "assumed: ", assumption));
  }
}

}  // namespace qkv::app
