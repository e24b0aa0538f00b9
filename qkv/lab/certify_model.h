// Certificates of a whole model, part by part, as front ends ask for them. Not here: the statements (certificate.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "qkv/io/json.h"
#include "qkv/lab/certificate.h"
#include "qkv/report/table.h"

namespace qkv::lab {

struct CertifyRequest {
  int64_t rank = 0;  // of kTruncate; 0: half of a head's features
  std::string with;  // traits to add to the model's own, as AddTraits
};

/// Names of traits that AddTraits takes.
std::string TraitNames();

/// Adds the traits that `list` names, separated by commas, for heads of this width: "rope=16,sink". Throws Error for
/// another name.
void AddTraits(std::string_view list, int64_t width, AttentionTraits* traits);

struct PartCertificates {
  std::string part;  // for a text model: "encoder", "decoder", "cross"
  int64_t rank = 0;  // of kTruncate
  std::vector<Certificate> certificates;
};

struct ModelCertificates {
  std::vector<PartCertificates> parts;
  std::vector<std::string> notes;  // what the certificates leave out, in sentences
};

/// Throws Error as Certify, AddTraits, and for a rank above a head's features.
ModelCertificates CertifyModel(const model::Checkpoint& checkpoint, const CertifyRequest& request);
/// Parts whose scores do not come from tokens are left out, with a note. Throws Error likewise, and if no other part
/// is there.
ModelCertificates CertifyModel(const std::vector<inspect::AttentionPart>& parts, const CertifyRequest& request);

/// Equal verdicts in a row, with the range of their numbers.
report::Table CertificateTable(const PartCertificates& part);

/// The JSON form of one; numbers that do not apply are null.
io::Json ToJson(const Certificate& certificate, int64_t rank);

}  // namespace qkv::lab
