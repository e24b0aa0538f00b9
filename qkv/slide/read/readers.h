// The readers of slides. Internal to slide/read/.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "qkv/slide/read/slide.h"

namespace qkv::slide {

// Each opens what it can, by content. For what is not its own it returns nothing and says why in `why`, in words that
// fit behind "NAME: "; a damaged file of its own is an Error.

/// TIFF whose layout is known: Aperio, OME-TIFF, pyramids of tiles, flat pictures. Not those of scanners that need a
/// reader of their own (Hamamatsu, Leica, Philips, Trestle, Ventana).
std::unique_ptr<Slide> OpenTiff(const std::filesystem::path& path, const SlideOptions& options, std::string& why);
/// Whatever OpenSlide reads, in a process of its own.
std::unique_ptr<Slide> OpenByOpenSlide(const std::filesystem::path& path, const SlideOptions& options,
                                       std::string& why);
/// DICOM whole-slide images, by DCMTK.
std::unique_ptr<Slide> OpenDicom(const std::filesystem::path& path, const SlideOptions& options, std::string& why);

}  // namespace qkv::slide
