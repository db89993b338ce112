// A real Chromium (Debian's package, or the one that $CHROMIUM names) that may reach nothing: each request that leaves the page is
// noted and refused.
import { existsSync } from 'node:fs'
import { type Browser, chromium, type Page } from 'playwright-core'

const places = [
  process.env['CHROMIUM'],
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
]

export const browserPath = places.find((path) => path !== undefined && existsSync(path))

export function openBrowser(): Promise<Browser> {
  // WebGL by software, because there may be no graphics card; Chromium refuses to run as root in its sandbox.
  const args = [
    '--no-sandbox',
    '--use-angle=swiftshader',
    '--enable-unsafe-swiftshader',
    '--disable-dev-shm-usage',
  ]
  return chromium.launch({ executablePath: browserPath!, args })
}

export interface OpenPage {
  readonly page: Page
  /** The addresses that the page asked for, besides itself. */
  readonly requests: readonly string[]
  /** What it wrote to the console as errors, and what it threw. */
  readonly errors: readonly string[]
}

/** Opens a file and waits until its script has run. */
export async function openFilePage(browser: Browser, url: URL): Promise<OpenPage> {
  const page = await browser.newPage({ viewport: { width: 1400, height: 900 } })
  const [requests, errors]: [string[], string[]] = [[], []]
  await page.route('**/*', (route) => {
    const asked = route.request().url()
    if (asked === url.href) return route.continue()
    requests.push(asked)
    return route.abort()
  })
  page.on('pageerror', (error) => errors.push(error.message))
  page.on('console', (message) => {
    if (message.type() === 'error') errors.push(message.text())
  })
  await page.goto(url.href)
  await page.waitForSelector('html[data-ready=true]', { timeout: 60_000 })
  return { page, requests, errors }
}
