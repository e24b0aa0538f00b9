// What the library tells a front while it works. Nothing in qkv/ prints.
#pragma once

#include <functional>
#include <string>

namespace qkv::app {

/// Receives a remark for the user, such as an assumption about a model or the name of an unreadable file. Names in the
/// text are escaped (core/text.h), so it can be shown as it is; it has no line end at its end. May be empty.
using Note = std::function<void(const std::string& text)>;

/// True for a remark about files that contradict themselves, which a quiet front shows, too.
inline bool IsWarning(const std::string& text) { return text.find("warning: ") != std::string::npos; }

inline void Notify(const Note& note, const std::string& text) {
  if (note) note(text);
}

}  // namespace qkv::app
