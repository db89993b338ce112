// Servers from Maven Central, downloaded once into `.cache/`.
import { execFile } from 'node:child_process'
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { cached, patience } from './cache.ts'

const run = promisify(execFile)

/** Artifacts with everything they need at run time. */
export interface MavenArtifacts {
  /** The name of the folder in the cache; say the version in it. */
  readonly name: string
  /** `group:artifact:version`. */
  readonly artifacts: readonly string[]
}

/** A folder with the jars of the artifacts and of all they depend on. */
export function mavenArtifacts({ name, artifacts }: MavenArtifacts): Promise<string> {
  return cached(name, async (folder) => {
    const pom = join(folder, 'pom.xml')
    await writeFile(pom, pomOf(artifacts))
    const goal = ['dependency:copy-dependencies', '-DincludeScope=runtime', `-DoutputDirectory=${folder}`]
    await maven(['-f', pom, ...goal])
  })
}

/** The folder into which one `group:artifact:version:tar.gz:classifier` was unpacked, without its top folder. */
export function mavenArchive(artifact: string): Promise<string> {
  const [group, name, version, , classifier] = artifact.split(':')
  if (!group || !name || !version || !classifier) throw new Error(`${artifact}: not an archive's coordinates`)
  return cached(`${name}-${version}`, async (folder) => {
    await maven(['dependency:copy', `-Dartifact=${artifact}`, `-DoutputDirectory=${folder}`])
    const archive = join(folder, `${name}-${version}-${classifier}.tar.gz`)
    await run('tar', ['-xzf', archive, '-C', folder, '--strip-components=1'])
    await rm(archive)
  })
}

function maven(goal: readonly string[]): Promise<unknown> {
  return run('mvn', ['-B', '-q', ...goal], { timeout: patience, maxBuffer: 16 * 1024 * 1024 })
}

function pomOf(artifacts: readonly string[]): string {
  const dependencies = artifacts.map((artifact) => {
    const [group, name, version] = artifact.split(':')
    return `<dependency><groupId>${group}</groupId><artifactId>${name}</artifactId><version>${version}</version></dependency>`
  })
  return `<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>test</groupId><artifactId>servers</artifactId><version>1</version>
<dependencies>${dependencies.join('\n')}</dependencies></project>
`
}
