// Numbers about vectors.

/** The cosine of two vectors of one length; 0 if one has no direction. */
export function cosine(a: ArrayLike<number>, b: ArrayLike<number>): number {
  let ab = 0,
    aa = 0,
    bb = 0;
  for (let i = 0; i < a.length; ++i) {
    ab += a[i] * b[i];
    aa += a[i] * a[i];
    bb += b[i] * b[i];
  }
  return aa > 0 && bb > 0 ? ab / Math.sqrt(aa * bb) : 0;
}
