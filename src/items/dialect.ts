// The drafts of JSON Schema that are read, each by its own rules: the one that `$schema` names, else 2020-12, or draft-07 if the schema
// is valid only there. A keyword that a draft does not have is ignored, as the drafts themselves say.
import { Ajv, type Options } from 'ajv'
import ajv2019Module from 'ajv/dist/2019.js'
import ajv2020Module from 'ajv/dist/2020.js'
import draft06Schema from 'ajv/dist/refs/json-schema-draft-06.json' with { type: 'json' }
import ajvDraft04Module from 'ajv-draft-04'

export interface Dialect {
  readonly name: string
  /** An empty validator for schemas of this draft. */
  readonly create: (options: Options) => Ajv
  /** Whether keywords beside a `$ref` do not count, as in older drafts. */
  readonly refAlone: boolean
  /** What is wrong with a schema by its meta-schema. */
  readonly metaError: (
    schema: object | boolean,
  ) => { readonly place: string; readonly message: string } | undefined
}

const draft04 = dialect('draft-04', ajvDraft04Module.default as unknown as typeof Ajv, {
  unknown: ['const', 'contains', 'propertyNames', 'if', 'then', 'else'],
  refAlone: true,
})
const draft06 = dialect('draft-06', Ajv, {
  unknown: ['if', 'then', 'else'],
  refAlone: true,
  metaSchema: draft06Schema,
})
const draft07 = dialect('draft-07', Ajv, { refAlone: true })
const draft2019 = dialect('2019-09', ajv2019Module.default, { unknown: ['$dynamicRef', '$dynamicAnchor'] })
const draft2020 = dialect('2020-12', ajv2020Module.default)

const dialects = [draft04, draft06, draft07, draft2019, draft2020]

/** The dialect that `$schema` names; undefined for an unknown one. */
export function dialectNamed($schema: unknown): Dialect | undefined {
  const [, name] = /^https?:\/\/json-schema\.org\/(?:draft\/)?([^/]+)\/schema#?$/.exec(String($schema)) ?? []
  return dialects.find((each) => each.name === name)
}

/** The dialects of a schema that names none, the usual one first. */
export const assumedDialects = [draft2020, { ...draft07, refAlone: false }] as const

export const dialectNames: readonly string[] = dialects.map(({ name }) => name)

interface Peculiarities {
  /** Keywords that the validator knows and the draft does not. */
  readonly unknown?: readonly string[]
  readonly refAlone?: boolean
  /** Default: the validator's own. */
  readonly metaSchema?: Options['meta']
}

function dialect(
  name: string,
  Validator: typeof Ajv,
  { unknown = [], refAlone = false, metaSchema }: Peculiarities = {},
): Dialect {
  /** Created once per process, on first use: it only validates schemas against their meta-schema. */
  let checker: Ajv | undefined
  function metaError(schema: object | boolean) {
    checker ??= new Validator({
      strict: false,
      logger: false,
      validateFormats: false,
      meta: metaSchema ?? true,
    })
    if (checker.validateSchema(schema)) return undefined
    const [error] = checker.errors ?? []
    return { place: error?.instancePath ?? '', message: error?.message ?? 'not a schema' }
  }
  return {
    name,
    refAlone,
    metaError,
    create(options) {
      const ajv = new Validator(options)
      for (const keyword of unknown) ajv.removeKeyword(keyword)
      return ajv
    },
  }
}
