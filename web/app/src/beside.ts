// What a model's heads have beside the formulas of the page, in words.
import { sharesQueryAndKey, type Model } from "./model";

/** What a model's scores depend on beside M = W_Qᵀ W_K. A bias of keys is not among it: the softmax cancels it. */
export function besideM({ query_bias, qk_norm, positions }: Model): string[] {
  return [
    query_bias && "the bias of the queries",
    qk_norm && "the norms of queries and keys",
    positions.includes("rotary") && "the rotation by positions",
    positions.includes("relative") && "biases by relative position",
  ].filter((each) => each !== false);
}

/** What a head of this model does beside the formula of step 4. */
export function besideFormula(model: Model): string {
  const { title, positions, query_bias, qk_norm } = model;
  return [
    sharesQueryAndKey(model) && "both matrices are one",
    query_bias && "queries and keys have biases",
    qk_norm && "queries and keys are normalised",
    positions.includes("added") && "positions are part of the tokens",
    positions.includes("rotary") && "positions rotate queries and keys",
    positions.includes("relative") && "relative positions add to the scores",
  ]
    .filter((each) => each !== false)
    .map((each, i) => (i ? each : `In ${title} ${each}`))
    .join("; ");
}
