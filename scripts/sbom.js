// @ts-check
// The bill of materials that the build writes to dist, in CycloneDX: the locked packages that are installed with graphmill. It has no
// times, folders or registries, so the same lock file gives the same result on every machine.
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/**
 * @typedef {{ 'bom-ref': string, name: string, version: string, properties?: { name: string }[], externalReferences?: { type: string }[] }} Component
 *
 * The part of CycloneDX 1.5 that is used here.
 * @typedef {{ bomFormat: 'CycloneDX', specVersion: string, metadata: { component: Component, timestamp?: string },
 *   components: Component[], dependencies: { ref: string, dependsOn: string[] }[] }} Sbom
 */

/**
 * @param {string} root the folder of the project
 * @returns {Sbom}
 */
export function sbomOf(root) {
  // `--omit dev` would leave out required packages that a development dependency also requires.
  const question = ['sbom', '--sbom-format', 'cyclonedx', '--package-lock-only']
  const answer = execFileSync('npm', question, {
    cwd: root,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
    maxBuffer: 64 * 1024 * 1024,
  })
  const { serialNumber: _, ...sbom } = /** @type {Sbom & { serialNumber?: string }} */ (JSON.parse(answer))
  const components = sbom.components.filter((component) => !isForDevelopment(component))
  const refs = new Set([sbom.metadata.component, ...components].map((component) => component['bom-ref']))
  const { timestamp: __, ...metadata } = sbom.metadata
  const { name } = /** @type {{ name: string }} */ (
    JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  )
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

/** @param {Component} component */
function isForDevelopment({ properties = [] }) {
  return properties.some(({ name }) => name === 'cdx:npm:package:development')
}

/** @param {Component} component */
function withoutRegistry(component) {
  const { externalReferences = [] } = component
  return {
    ...component,
    externalReferences: externalReferences.filter(({ type }) => type !== 'distribution'),
  }
}
