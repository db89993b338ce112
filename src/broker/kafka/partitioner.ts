// Which partition a key goes to: the one that Kafka's Java clients choose, so that producers of both kinds agree. kafkajs
// computes the same with 64-bit integers of its own, which costs more than all other work on a message.
/** The partition of a key in a topic of so many partitions. */
export const partitionOf = (key: string, partitions: number): number =>
  (murmur2(Buffer.from(key)) & 0x7fffffff) % partitions

const multiplier = 0x5bd1e995
const seed = 0x9747b28c

/** MurmurHash2 of 32 bits with Kafka's seed; signed, as Java has it. */
export function murmur2(bytes: Buffer): number {
  const { length } = bytes
  const whole = length & ~3
  let hash = seed ^ length
  for (let at = 0; at < whole; at += 4) {
    const word = Math.imul(bytes.readInt32LE(at), multiplier)
    hash = Math.imul(hash, multiplier) ^ Math.imul(word ^ (word >>> 24), multiplier)
  }
  if (whole < length) {
    for (let at = length - 1; at >= whole; at--) hash ^= bytes[at]! << (8 * (at - whole))
    hash = Math.imul(hash, multiplier)
  }
  hash = Math.imul(hash ^ (hash >>> 13), multiplier)
  return hash ^ (hash >>> 15)
}
