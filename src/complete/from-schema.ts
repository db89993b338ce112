// The static type of the values of a JSON Schema, for the usual subset: type, properties, required, additionalProperties,
// items, prefixItems, enum, const, anyOf, oneOf, allOf, nullable. What it doesn't know (such as $ref) is `unknown`.

/** The type of the values of `S`, which should be a literal or `as const`. */
export type FromSchema<S> = S extends true
  ? unknown
  : S extends { readonly const: infer C }
    ? Plain<C>
    : S extends { readonly enum: readonly (infer E)[] }
      ? Plain<E>
      : S extends { readonly anyOf: readonly (infer B)[] } | { readonly oneOf: readonly (infer B)[] }
        ? Each<B>
        : S extends { readonly allOf: readonly [...infer A] }
          ? All<A>
          : S extends { readonly nullable: true; readonly type: infer T }
            ? Typed<T, S> | null
            : S extends { readonly type: infer T }
              ? Typed<T, S>
              : unknown

type Typed<T, S> = T extends readonly (infer One)[] ? OneOf<One, S> : OneOf<T, S>

type OneOf<T, S> = T extends 'string'
  ? string
  : T extends 'number' | 'integer'
    ? number
    : T extends 'boolean'
      ? boolean
      : T extends 'null'
        ? null
        : T extends 'array'
          ? ListOf<S>
          : T extends 'object'
            ? ObjectOf<S>
            : unknown

type ListOf<S> = S extends { readonly prefixItems: readonly [...infer P]; readonly items: false }
  ? { -readonly [K in keyof P]: FromSchema<P[K]> }
  : S extends { readonly items: infer I }
    ? FromSchema<I>[]
    : unknown[]

type ObjectOf<S> = S extends { readonly properties: infer P }
  ? Flat<
      { -readonly [K in keyof P as K extends Required<S> ? K : never]: FromSchema<P[K]> } & {
        -readonly [K in keyof P as K extends Required<S> ? never : K]?: FromSchema<P[K]>
      }
    >
  : S extends { readonly additionalProperties: infer A }
    ? Record<string, A extends false ? never : FromSchema<A>>
    : Record<string, unknown>

type Required<S> = S extends { readonly required: readonly (infer R)[] } ? R : never

type Each<B> = B extends unknown ? FromSchema<B> : never

type All<A> = A extends readonly [infer First, ...infer Rest] ? FromSchema<First> & All<Rest> : unknown

type Flat<T> = { [K in keyof T]: T[K] }

/** A value that stood in a schema, without its `readonly`. */
type Plain<V> = V extends readonly (infer E)[]
  ? Plain<E>[]
  : V extends object
    ? { -readonly [K in keyof V]: Plain<V[K]> }
    : V
