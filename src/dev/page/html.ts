import { GOODS, priceOf } from '../shop/goods.ts';

export interface PageSettings {
  /** False: only the user's own tasks are shown. */
  readonly hasShop: boolean;
}

/** A ring that was broken and goes on. */
export const ICON = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">
<rect width="32" height="32" rx="8" fill="#0f6b5c"/>
<path d="M16 6.5a9.5 9.5 0 1 1-8.9 6.2" fill="none" stroke="#fff" stroke-width="3" stroke-linecap="round"/>
<circle cx="10.6" cy="8.2" r="2" fill="#8be0cb"/>
</svg>`;

/** The page without its contents: those are sent as data and inserted as text. */
export function renderPage({ hasShop }: PageSettings): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Outlast dev</title>
<link rel="icon" href="/assets/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/assets/styles.css">
<script type="module" src="/assets/client.js"></script>
</head>
<body>
<a class="skip" href="#tasks">Skip to the tasks</a>
<p id="banner" class="banner" role="alert" hidden></p>
<header class="top">
<div class="brand">
<img src="/assets/icon.svg" alt="" width="36" height="36">
<div>
<h1>Outlast <span class="tag">dev</span></h1>
<p id="database" class="quiet">Tasks that outlast crashes</p>
</div>
</div>
<dl id="counts" class="counts" aria-label="Tasks by state">${COUNTS}</dl>
</header>
<section class="workers" aria-labelledby="workers-title">
<h2 id="workers-title">Worker processes</h2>
<ul id="workers"></ul>
</section>
<main class="${hasShop ? 'with-shop' : 'alone'}">
${hasShop ? SHOP : ''}
<section class="life" aria-labelledby="tasks-title">
<h2 id="tasks-title">Tasks <span class="quiet">newest first</span></h2>
<div id="empty" class="empty" hidden>${hasShop ? EMPTY_SHOP : EMPTY_OWN}</div>
<ol id="tasks" class="tasks" tabindex="-1"></ol>
</section>
</main>
<p id="news" class="unseen" aria-live="polite"></p>
<noscript><p class="banner">This page needs JavaScript to show tasks as they run.</p></noscript>
</body>
</html>
`;
}

const COUNTS = ['Pending', 'Waiting', 'Running', 'Done', 'Dead']
  .map(label => `<div data-count="${label.toLowerCase()}"><dt>${label}</dt><dd>0</dd></div>`)
  .join('');

const ITEMS = GOODS.map(
  ({ item, label, cents }) => `<option value="${item}">${label}, ${priceOf(cents)}</option>`,
).join('');

const SHOP = `<section class="shop" aria-labelledby="shop-title">
<h2 id="shop-title">Sample shop</h2>
<p>An order and its task are written in one transaction. The task then takes six seconds to make a receipt:
time enough to kill its worker on the way.</p>
<form id="order" autocomplete="off">
<div class="fields">
<label>Customer<input name="customer" value="Ada" maxlength="60" required></label>
<label>Item<select name="item">${ITEMS}</select></label>
</div>
<div class="choice">
<button class="primary" type="submit" name="act" value="commit">Place order</button>
<p>Order and task, one COMMIT.</p>
</div>
<div class="choice">
<button type="submit" name="act" value="roll-back">Place order, roll back</button>
<p>The same, then ROLLBACK: nothing appears.</p>
</div>
<div class="choice">
<button type="submit" name="act" value="decline">Declined card</button>
<p>Fails three times, then becomes a dead letter.</p>
</div>
</form>
<div class="choice crash">
<button id="kill" class="danger" type="button">Kill the worker</button>
<p>SIGKILL to the process that runs the newest task. Watch it being brought back.</p>
</div>
<p id="message" class="message" role="status"></p>
<details>
<summary>The code behind “Place order”</summary>
<pre><code>await outlast.transaction(async tx =&gt; {
  const order = await insertOrder(tx);
  await outlast.send(tx, sendReceipt, {
    orderId: order.id,
  });
});</code></pre>
</details>
</section>`;

const EMPTY_SHOP = `<h3>No task yet</h3>
<p>Place an order. Its task appears here and shows its way: committed, running, done.</p>
<p>While it runs, kill its worker and see what happens.</p>`;

const EMPTY_OWN = `<h3>No task yet</h3>
<p>Send one from your code, or from another terminal:</p>
<pre><code>npx outlast send NAME --kwargs '{"key": "value"}'</code></pre>`;
