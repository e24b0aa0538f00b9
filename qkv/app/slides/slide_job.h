// The way of one slide from its file to vectors, answers and maps. Each step takes what an earlier run left, so a run
// that was stopped goes on where it was.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "qkv/app/open/note.h"
#include "qkv/app/slides/slide_folder.h"
#include "qkv/app/slides/slide_list.h"
#include "qkv/app/slides/slide_state.h"
#include "qkv/app/vectors/embedder.h"
#include "qkv/mil/head.h"
#include "qkv/slide/tissue/grid.h"
#include "qkv/slide/tissue/tissue.h"

namespace qkv::app {

/// Formats of vectors: TRIDENT's HDF5 always, and beside it CLAM's or safetensors.
enum class FeatureLayout { kTrident, kClam, kSafeTensors };

/// A head with the name of its results.
struct NamedHead {
  std::string name;
  std::shared_ptr<const mil::Head> head;
};

struct SlideJobOptions {
  std::filesystem::path output;
  std::filesystem::path openslide;  // its library; empty: looked for
  slide::GridOptions grid;
  slide::TissueOptions tissue;
  bool new_tissue = false;  // find tissue again, although the folder has areas, which someone may have edited
  bool overwrite = false;   // replace vectors that another model or grid made
  bool save_tiles = false;  // each tile as PNG
  bool maps = true;         // a heatmap for each head
  int batch = 0;            // tiles computed together; 0: what suits the encoder
  FeatureLayout layout = FeatureLayout::kTrident;
  std::string encoder;  // name of its vectors; empty: no vectors are made
  std::vector<NamedHead> heads;
};

/// What a front end shows while a slide is worked on. Called from any thread, one at a time.
struct SlideEvents {
  Note note;
  std::function<void(const std::string& slide, int64_t tiles)> begin;  // vectors of so many tiles are to be made
  std::function<void(int64_t tiles)> advance;                          // so many more are done
};

class SlideJobs {
 public:
  /// `embedder` may be null if no encoder is named. Both outlive this.
  SlideJobs(const SlideJobOptions& options, Embedder* embedder, const SlideEvents& events);

  const SlideFolder& folder() const { return folder_; }

  /// Takes a slide as far as the options say, and writes its state. What ends it is the error in its state; Error
  /// is thrown if that cannot be read or written.
  SlideState Run(const SlideEntry& slide);

 private:
  struct Work;

  void FindTissue(Work& work);
  void PlanTiles(Work& work);
  void SaveTiles(Work& work);
  void SavePlaces(const Work& work) const;
  void MakeFeatures(Work& work);
  void Answer(Work& work);
  void WriteSlideVector(const Work& work, const std::string& head, const mil::Answer& answer) const;
  void Damage(Work& work, const std::string& why);

  const SlideJobOptions& options_;
  Embedder* const embedder_;
  const SlideEvents& events_;
  const SlideFolder folder_;
};

}  // namespace qkv::app
