// The bill of materials of the build: valid CycloneDX, complete according to the lock file, and without traces of the machine.
import { existsSync, readFileSync } from 'node:fs'
import { hostname, userInfo } from 'node:os'
import { resolve } from 'node:path'
import { expect, test } from 'vitest'
import { sbomOf } from '../../scripts/sbom.js'

const root = resolve(import.meta.dirname, '../..')
const lock = JSON.parse(readFileSync(`${root}/package-lock.json`, 'utf8')) as {
  packages: Record<string, { version: string; dev?: boolean }>
}

type Component = ReturnType<typeof sbomOf>['components'][number] & {
  readonly type: string
  readonly purl: string
  readonly hashes?: readonly { readonly alg: string; readonly content: string }[]
}
type Whole = ReturnType<typeof sbomOf> & {
  readonly version: number
  readonly components: readonly Component[]
  readonly metadata: { readonly component: Component }
}

const sbom = sbomOf(root) as unknown as Whole

test('it is valid CycloneDX: names, versions, package URLs and hashes, and references that resolve', () => {
  expect([sbom.bomFormat, sbom.specVersion, sbom.version]).toEqual(['CycloneDX', '1.5', 1])
  const all = [sbom.metadata.component, ...sbom.components]
  const refs = new Set(all.map((component) => component['bom-ref']))
  expect(refs.size).toBe(all.length)
  for (const component of all) {
    const { type, name, version, purl } = component
    expect(type).toBe('library')
    expect(purl).toBe(`pkg:npm/${name.replace('@', '%40')}@${version}`)
  }
  for (const { name, hashes = [] } of sbom.components) {
    expect(
      hashes.map(({ alg }) => alg),
      name,
    ).toEqual(['SHA-512'])
    expect(hashes[0]!.content).toMatch(/^[\da-f]{128}$/)
  }
  for (const { ref, dependsOn } of sbom.dependencies) {
    expect(refs).toContain(ref)
    for (const each of dependsOn) expect(refs).toContain(each)
  }
  expect(sbom.metadata.component).toMatchObject({ name: 'graphmill', version: lock.packages['']!.version })
})

test('it lists every package that is installed with graphmill, and no development dependency', () => {
  const installed = Object.entries(lock.packages)
    .filter(([path, { dev }]) => path !== '' && !dev)
    .map(([path, { version }]) => `${path.split('node_modules/').at(-1)}@${version}`)
  const listed = new Set(sbom.components.map(({ name, version }) => `${name}@${version}`))
  expect(installed.filter((each) => !listed.has(each))).toEqual([])
  expect(listed.size).toBe(new Set(installed).size)
  for (const name of ['vitest', 'typescript', '@biomejs/biome'])
    expect(sbom.components.map((component) => component.name)).not.toContain(name)
})

test('it is the same on every machine: it has no folders, hosts, users, times or registries', () => {
  const { repository } = JSON.parse(readFileSync('package.json', 'utf8')) as { repository: { url: string } }
  const text = JSON.stringify(sbom).replaceAll(repository.url.slice('git+'.length), '')
  for (const trace of [root, hostname(), userInfo().homedir]) expect(text).not.toContain(trace)
  expect(text.match(/https?:\/\/[^/"]+/g)?.filter((each) => each !== 'http://cyclonedx.org') ?? []).toEqual(
    [],
  )
  expect(text).not.toMatch(/timestamp|serialNumber/)
  expect(sbomOf(root)).toEqual(sbom)
})

test.skipIf(!existsSync(`${root}/dist/sbom.cdx.json`))('the build writes it to dist', () => {
  expect(JSON.parse(readFileSync(`${root}/dist/sbom.cdx.json`, 'utf8'))).toEqual(sbom)
})
