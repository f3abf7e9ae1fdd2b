// Updates the live part of a page and copies options. Pages also work without it.
"use strict";

(() => {
  const QUIET_MS = 300;
  const LONGEST_PAUSE_MS = 10000;

  const live = document.querySelector("[data-live]");
  const status = document.getElementById("connection");

  function say(text, kind) {
    if (status.textContent !== text) {
      status.textContent = text;
      status.dataset.kind = kind;
    }
  }

  // Replaces changed sections, and keeps what the reader has opened, typed, scrolled or focused.
  function show(text) {
    const fresh = new DOMParser().parseFromString(text, "text/html");
    const wanted = [...fresh.body.children];
    const known = new Map([...live.children].map((section) => [section.id, section]));
    wanted.forEach((section, place) => {
      const old = known.get(section.id);
      known.delete(section.id);
      if (old && old.dataset.sent === section.outerHTML) return;
      const sent = section.outerHTML;
      const made = document.importNode(section, true);
      made.dataset.sent = sent;
      if (!old) {
        live.insertBefore(made, live.children[place] || null);
        return;
      }
      for (const open of old.querySelectorAll("details[open][id]")) {
        const same = made.querySelector(`#${CSS.escape(open.id)}`);
        if (same) same.open = true;
      }
      for (const field of old.querySelectorAll("input[id]")) {
        const same = made.querySelector(`#${CSS.escape(field.id)}`);
        if (same && field.value !== field.defaultValue) same.value = field.value;
      }
      const scrolled = [...old.querySelectorAll(".scroll[id]")].map((e) => [e.id, e.scrollLeft, e.scrollTop]);
      const focused = old.contains(document.activeElement) ? document.activeElement.id : "";
      old.replaceWith(made);
      for (const [id, left, top] of scrolled) {
        const same = made.querySelector(`#${CSS.escape(id)}`);
        if (same) { same.scrollLeft = left; same.scrollTop = top; }
      }
      const again = focused && made.querySelector(`#${CSS.escape(focused)}`);
      if (again) again.focus({ preventScroll: true });
    });
    for (const gone of known.values()) gone.remove();
  }

  let tag = "";
  let waiting = 0;
  let busy = false;

  async function refresh() {
    waiting = 0;
    if (busy) { soon(); return true; }
    busy = true;
    try {
      const headers = tag ? { "If-None-Match": tag } : {};
      const answer = await fetch(live.dataset.live, { headers, cache: "no-store" });
      if (answer.redirected) { location.reload(); return true; }
      if (answer.ok) {
        tag = answer.headers.get("ETag") || "";
        show(await answer.text());
      }
      later();
      return answer.ok || answer.status === 304;
    } catch {
      return false;
    } finally {
      busy = false;
    }
  }

  // Refreshes again later if the page says that something is still being computed.
  function later() {
    const pending = live.querySelector("[data-again]");
    if (pending && !waiting) waiting = setTimeout(refresh, 1000 * Number(pending.dataset.again));
  }

  function soon() {
    if (!waiting) waiting = setTimeout(refresh, QUIET_MS);
  }

  function watch(address) {
    let pause = 500;
    let newest = 0;
    const connect = () => {
      const url = new URL(address, location.href);
      if (newest) url.searchParams.set("after", String(newest));
      const source = new EventSource(url);
      source.addEventListener("open", () => { pause = 500; say("live", "live"); soon(); });
      source.addEventListener("campaign", (event) => { newest = Number(event.lastEventId); soon(); });
      source.addEventListener("presence", soon);
      source.addEventListener("over", () => { source.close(); say("ended", "over"); soon(); });
      source.addEventListener("error", () => {
        say("connection lost, retrying", "lost");
        if (source.readyState !== EventSource.CLOSED) return;
        // A browser stops retrying if the response was not an event stream; we do not.
        setTimeout(connect, pause);
        pause = Math.min(2 * pause, LONGEST_PAUSE_MS);
      });
    };
    connect();
  }

  function poll(every) {
    setInterval(async () => {
      if (document.hidden) return;
      if (await refresh()) say("", ""); else say("connection lost, retrying", "lost");
    }, every);
  }

  if (live) later();
  if (live && live.dataset.events) watch(live.dataset.events);
  if (live && live.dataset.every) poll(1000 * Number(live.dataset.every));

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    const source = document.getElementById(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(source.textContent);
      say("copied", "");
    } catch {
      getSelection().selectAllChildren(source);
      say("selected; copy with the keyboard", "");
    }
  });
})();
