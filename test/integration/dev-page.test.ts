import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium, type Browser, type Locator, type Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { DevProcess, ROOT } from '../support/dev-process.ts';
import { chromiumPath } from '../support/servers.ts';

const DEBIAN_CHROMIUM = '/usr/bin/chromium';
const ARGS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--no-first-run',
];
/** Pictures for the documentation, made from the running product. */
const isShooting = process.env['OUTLAST_SCREENSHOTS'] !== undefined;
/** A task takes six seconds, and the machine may be busy with other tests. */
const PATIENCE_MS = 120_000;

/** The page as a person sees it: one browser and one `outlast dev` for all tests. */
describe('the page of outlast dev', () => {
  let folder: string;
  let dev: DevProcess;
  let browser: Browser;
  let page: Page;
  /** What the browser complains about, and what it requests from other hosts. */
  let complaints: string[] = [];

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'outlast-page-'));
    const isDebian =
      process.env['OUTLAST_TEST_CHROMIUM'] === undefined && existsSync(DEBIAN_CHROMIUM);
    const executablePath = isDebian ? DEBIAN_CHROMIUM : chromiumPath();
    [dev, browser] = await Promise.all([
      DevProcess.start(folder),
      chromium.launch({ executablePath, args: ARGS }),
    ]);
    const deviceScaleFactor = isShooting ? 2 : 1;
    page = await browser.newPage({ viewport: { width: 1280, height: 900 }, deviceScaleFactor });
    page.setDefaultTimeout(PATIENCE_MS);
    page.on('console', message => {
      // A violation of the content security policy is reported here too, as an error.
      if (message.type() !== 'log') complaints.push(`${message.type()}: ${message.text()}`);
    });
    page.on('pageerror', error => complaints.push(error.message));
    page.on('request', request => {
      if (!request.url().startsWith(`${dev.address}/`)) complaints.push(`asks ${request.url()}`);
    });
    await page.goto(dev.address);
  });

  afterAll(async () => {
    await browser?.close();
    await dev?.stop();
    await rm(folder, { recursive: true, force: true });
  });

  /** The newest task, and whether it has reached a station. */
  const newest = (): Locator => page.locator('.task').first();
  const station = (task: Locator, label: string): Locator =>
    task.locator('.track li:not(.next)', { hasText: label });

  async function placeOrder(
    customer: string,
    item: string,
    button = 'Place order',
  ): Promise<Locator> {
    await page.getByLabel('Customer').fill(customer);
    await page.getByLabel('Item').selectOption(item);
    await page.getByRole('button', { name: button, exact: true }).click();
    const task = page.locator('.task', { hasText: `for ${customer}` });
    await task.waitFor();
    return task;
  }

  it('shows instructions while there is nothing to see', async () => {
    await page.getByText('No task yet').waitFor();
    await page.locator('.worker').nth(1).waitFor();
    expect(await page.locator('.task').count()).toBe(0);
  });

  it('shows nothing of a rolled-back order', async () => {
    await page.getByRole('button', { name: 'Place order, roll back' }).click();
    await page.getByText('Rolled back: no order, no task.').waitFor();
    expect(await page.locator('.task').count()).toBe(0);
    await page.getByText('No task yet').waitFor();
  });

  it('shows the progress of an order until it is done', async () => {
    // A browser that is kept waiting for six seconds finds the task done: then another one is looked at.
    const isSeen = async (task: Locator): Promise<boolean> =>
      await Promise.race([
        Promise.all(
          [station(task, 'Running'), task.locator('progress')].map(shown => shown.waitFor()),
        ).then(() => true),
        station(task, 'Done')
          .waitFor()
          .then(() => false),
      ]);
    let task = await placeOrder('Grace 1', 'kite');
    for (let nth = 2; !(await isSeen(task)); nth++) task = await placeOrder(`Grace ${nth}`, 'kite');
    await station(task, 'Done').waitFor();
    expect(await task.locator('.state').textContent()).toBe('Done');
    expect(await task.locator('.track b').allTextContents()).toEqual(['Committed', 'Ran', 'Done']);
    expect(await page.locator('[data-count="done"] dd').textContent()).toBe('1');
  });

  it('shows how a task comes back after its worker was killed', async () => {
    const failing = await placeOrder('Edsger', 'notebook', 'Declined card');
    await station(failing, 'Dead letter').waitFor();
    const task = await placeOrder('Barbara', 'lamp');
    await task.getByText('Charging the card').waitFor();
    await page.getByRole('button', { name: 'Kill the worker' }).click();
    await page.getByText('was killed in the middle of a task').waitFor();
    await station(task, 'Brought back').waitFor();
    await station(task, 'Running').getByText('epoch 2').waitFor();
    await task.getByText('Writing the receipt').waitFor();
    await shoot('dev');
    await station(task, 'Done').waitFor();
    await task.getByText('1 receipt').waitFor();
  });

  it('runs a dead letter again', async () => {
    const task = page.locator('.task', { hasText: 'for Edsger' });
    await task.getByRole('button', { name: 'Fix the card and retry' }).click();
    await station(task, 'Done').waitFor();
  });

  it('can be used by keyboard', async () => {
    await page.getByLabel('Customer').focus();
    await page.keyboard.type(' Keys');
    await page.keyboard.press('Enter');
    await newest().getByText('Keys').waitFor();
    await page.keyboard.press('Tab');
    await page.keyboard.press('Tab');
    await page.keyboard.press('Tab');
    await page.keyboard.press('Space');
    await page.getByText('Rolled back: no order, no task.').waitFor();
  });

  it('shows text of users as text', async () => {
    const name = '<b id="injected">Mallory</b>';
    await placeOrder(name, 'teapot');
    expect(await page.locator('#injected').count()).toBe(0);
  });

  it('fits a phone', async () => {
    await page.setViewportSize({ width: 360, height: 780 });
    const overflow = await page.evaluate(
      'document.documentElement.scrollWidth - document.documentElement.clientWidth',
    );
    expect(overflow).toBe(0);
    await page.setViewportSize({ width: 1280, height: 900 });
  });

  it('causes no browser error and requests nothing from other hosts', () => {
    expect(complaints).toEqual([]);
  });

  it('reports that the server does not answer, and recovers by itself', async () => {
    const port = new URL(dev.address).port;
    await dev.stop();
    await page.getByText('Outlast dev has stopped.').waitFor();
    // The last picture shows the final state.
    expect(await page.locator('.worker').count()).toBe(0);
    expect(await page.locator('[data-count="running"] dd').textContent()).toBe('0');
    dev = await DevProcess.start(folder, { args: ['--port', port] });
    await page.getByText('Outlast dev has stopped.').waitFor({ state: 'hidden' });
    await page.locator('.worker').nth(1).waitFor();
    complaints = [];
  });

  async function shoot(name: string): Promise<void> {
    if (!isShooting) return;
    const images = join(ROOT, 'docs', 'images');
    await mkdir(images, { recursive: true });
    await page.mouse.move(0, 0);
    const settled =
      'Promise.all(document.getAnimations().filter(a => a.effect.getComputedTiming().iterations === 1).map(a => a.finished))';
    for (const scheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme: scheme });
      await page.evaluate(settled);
      await page.screenshot({ path: join(images, `${name}-${scheme}.png`) });
    }
    await page.emulateMedia({ colorScheme: 'light' });
    await page.setViewportSize({ width: 390, height: 844 });
    await page.evaluate(settled);
    await page.screenshot({ path: join(images, `${name}-phone.png`), fullPage: true });
    await page.setViewportSize({ width: 1280, height: 900 });
  }
});
