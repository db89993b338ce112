// The types of what the items engine gives. The order is scanner (text to records), repair (record to value), validate (value to item).

/** Why a record was not accepted. */
export type RejectReason =
  | 'invalid_json'
  | 'schema'
  | 'not_finite'
  | 'too_deep'
  | 'too_large'
  | 'broken'
  | 'placeholder' // it shows the form of an item: its texts are an ellipsis

/** A lossless change that made a record readable. */
export type RepairName =
  | 'keys' // a key without quotes
  | 'quotes' // other quotes than JSON's round a key or string
  | 'inner_quotes' // a quote inside a string that was not escaped
  | 'trailing_comma'
  | 'missing_comma'
  | 'literals' // True, False, None and the like
  | 'escape' // a backslash that is no escape of JSON: dropped, read as another language does, or kept as text
  | 'separators' // a colon, comma or bracket as another language or script writes it
  | 'joined' // one string that was written as several
  | 'control' // a raw control character (newline, tab) in a string
  | 'closed' // a closer that was missing before the next record
  | 'comment' // a comment inside a record
  | 'space' // white space that JSON doesn't know
  | 'decoded' // objects that came as a JSON string
  | 'discriminator' // `type` folded to the case of the schema, or implied by a schema of one type
  | 'names' // a key, or a word that the schema lists, in another case or with other separators
  | 'nulls' // a null for an optional key was dropped
  | 'list' // a single value became a list of one, as the schema asks
  | 'unwrapped' // an item inside another object, such as a tool call
  | 'coerced' // a number or boolean that came as a string, or the other way round, when the schema asks for it
  | 'big_integer' // digits that a double would change, passed on as a string
  | 'proto' // a `__proto__` key was dropped
  | 'surrogate' // a lone surrogate became U+FFFD

/** The value of an item: a JSON object, or any JSON value when there is no schema and the parser is strict. */
export type ItemValue = unknown

/** What `parseItems` yields. */
export type ItemEvent =
  | {
      readonly type: 'item'
      readonly value: ItemValue
      /** Empty for an exact item. */
      readonly repairs: readonly RepairName[]
      /** 1-based line of the reply on which the record begins. */
      readonly line: number
    }
  | {
      readonly type: 'rejected'
      readonly reason: RejectReason
      readonly line: number
      /** The record's text, at most 200 characters. */
      readonly text: string
      /** What is wrong, in one sentence, with the place inside the record if known. */
      readonly message: string
      /** The whole record as JSON text, when it is readable and only fails the schema. */
      readonly record?: string
    }

/** What is known at the end of the reply. */
export interface ItemsEnd {
  /** A record was cut off at the end of the reply. */
  readonly truncated: boolean
  /** Lines with ignored text: prose, fences, list marks, comments, stop tokens, thinking. */
  readonly ignored: number
  /** The cut tail, at most 200 characters, for people only. */
  readonly tail: string
  /**
   * The model honestly found nothing, if it stopped by itself: there is only white space, or `[]` or a wrapper of an empty array after any
   * thoughts.
   */
  readonly empty: boolean
}

export interface ItemsOptions {
  /** The specification's plain line parser. Default false: tolerant. */
  readonly strict?: boolean
  /** Default 64. */
  readonly maxDepth?: number
  /** Largest record in characters. Default 1,048,576. */
  readonly maxRecord?: number
  /** The reply is known to be an object whose only key, such as `/items`, holds the array of items. */
  readonly root?: `/${string}`
}

/** The items and rejected records of a thought whose end alone was marked, as by a lone `</think>`: they were already given. */
export interface Thoughts {
  readonly items: number
  readonly rejected: number
}

/** Takes text in pieces; the events do not depend on how the text is cut. */
export interface ItemsParser {
  /** How many of the events given so far turned out to be a thought: the first ones. */
  readonly thoughts: Thoughts
  /** Whether the text so far ends inside a thought. */
  readonly thinking: boolean
  /** The events that `text` completed. */
  push(text: string): readonly ItemEvent[]
  /** The last events, and the summary. Call once. */
  end(): { readonly events: readonly ItemEvent[]; readonly end: ItemsEnd }
}
