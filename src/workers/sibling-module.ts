// Modules that are started in a thread or a process of their own, by their address.

/** The URL of the module `name` beside the one of `importMetaUrl`: sources run as they are, builds as JavaScript. */
export function siblingModule(name: string, importMetaUrl: string): URL {
  return new URL(`./${name}${importMetaUrl.endsWith('.ts') ? '.ts' : '.js'}`, importMetaUrl)
}
