// The vectors of a slide's tiles: made tile by tile, kept in a journal, and written in the layouts of others.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>

#include "qkv/app/slides/slide_folder.h"
#include "qkv/app/slides/slide_job.h"
#include "qkv/slide/files/feature_file.h"
#include "qkv/slide/files/feature_journal.h"
#include "qkv/slide/read/slide.h"
#include "qkv/slide/tissue/grid.h"

namespace qkv::app {

/// What damaged a slide's tiles is told this often.
inline constexpr size_t kProblemsKept = 20;

/// The attributes of TRIDENT's coordinates.
slide::Attributes CoordAttributes(const slide::Grid& grid, const slide::SlideFacts& facts, const std::string& name,
                                  const SlideFolder& folder);

struct FeatureMaker {
  const slide::Slide& slide;
  const slide::Grid& grid;
  const std::string& name;
  const std::filesystem::path& path;
  const SlideJobOptions& options;
  const SlideFolder& folder;
  const SlideEvents& events;
  // Filled by Make.
  bool from_file = false;                      // an earlier run had made all vectors
  std::map<size_t, std::string> damaged = {};  // tiles that this and stopped runs could not read, and why

  /// The vectors that an earlier run made of the same tiles with the same encoder, or new ones; and their files in
  /// options.layout. Throws Error if the file has others and may not be overwritten, and for what ends the slide and no
  /// single tile; then a later run goes on from the journal.
  slide::FeatureFile Make(Embedder& embedder);

 private:
  io::Json WhatMakes(const Embedder& embedder) const;
  void Embed(Embedder& embedder, slide::FeatureJournal& journal) const;
  void ReadOne(size_t tile, slide::FeatureJournal& journal, image::Image& pixels) const;
  // The layouts beside TRIDENT's, each encoder's and grid's in a folder of its own; not `anew`: those that are not
  // there.
  void WriteOthers(const slide::FeatureFile& file, bool anew) const;
};

}  // namespace qkv::app
