// The bill of materials that the build writes to dist, in CycloneDX: the locked packages that are installed with graphmill. It has no
// times, folders or registries, so the same lock file gives the same result on every machine.
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

interface Component {
  readonly 'bom-ref': string
  readonly name: string
  readonly version: string
  readonly properties?: readonly { readonly name: string }[]
  readonly externalReferences?: readonly { readonly type: string }[]
}

/** The part of CycloneDX 1.5 that is used here. */
export interface Sbom {
  readonly bomFormat: 'CycloneDX'
  readonly specVersion: string
  readonly metadata: { readonly component: Component; readonly timestamp?: string }
  readonly components: readonly Component[]
  readonly dependencies: readonly { readonly ref: string; readonly dependsOn: readonly string[] }[]
}

export function sbomOf(root: string): Sbom {
  // `--omit dev` would leave out required packages that a development dependency also requires.
  const question = ['sbom', '--sbom-format', 'cyclonedx', '--package-lock-only']
  const answer = execFileSync('npm', question, {
    cwd: root,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
    maxBuffer: 64 * 1024 * 1024,
  })
  const { serialNumber: _, ...sbom } = JSON.parse(answer) as Sbom & { readonly serialNumber?: string }
  const components = sbom.components.filter((component) => !isForDevelopment(component))
  const refs = new Set([sbom.metadata.component, ...components].map((component) => component['bom-ref']))
  const { timestamp: __, ...metadata } = sbom.metadata
  const { name } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { readonly name: string }
  return {
    ...sbom,
    // npm uses the name of the folder
    metadata: { ...metadata, component: { ...withoutRegistry(metadata.component), name } },
    components: components.map(withoutRegistry),
    dependencies: sbom.dependencies
      .filter(({ ref }) => refs.has(ref))
      .map(({ ref, dependsOn }) => ({ ref, dependsOn: dependsOn.filter((each) => refs.has(each)) })),
  }
}

function isForDevelopment({ properties = [] }: Component): boolean {
  return properties.some(({ name }) => name === 'cdx:npm:package:development')
}

function withoutRegistry<C extends Component>(component: C): C {
  const { externalReferences = [] } = component
  return {
    ...component,
    externalReferences: externalReferences.filter(({ type }) => type !== 'distribution'),
  }
}
