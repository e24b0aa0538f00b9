// qkv qk: the laboratory of queries and keys. Each of its commands has a file of its own, qk_NAME.cc.
#include "cli/command.h"

namespace qkv::cli {

void RegisterQk(Command app, int* exit_code) {
  const Command group = app.AddCommand(
      "qk", "Take queries and keys apart: inspect, claims, certify, merge, split, regauge, truncate, plan");
  group.RequireCommand();
  for (const Register add : {RegisterQkInspect, RegisterQkClaims, RegisterQkCertify, RegisterQkMerge, RegisterQkSplit,
                             RegisterQkRegauge, RegisterQkTruncate, RegisterQkPlan}) {
    add(group, exit_code);
  }
}

}  // namespace qkv::cli
