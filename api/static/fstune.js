// Updates the live part of a page and copies options. Pages also work without it.
"use strict";

(() => {
  const QUIET_MS = 300;
  const LONGEST_PAUSE_MS = 10000;
  const ANSWER_MS = 20000;
  // A browser has six connections to a host over HTTP/1.1, for all its pages: so many may stream.
  const STREAMS = 4;
  const WITHOUT_STREAM_MS = 5000;
  const LOST = "connection lost, retrying";

  const live = document.querySelector("[data-live]");
  const status = document.getElementById("connection");

  function say(text, kind) {
    if (status.textContent !== text) {
      status.textContent = text;
      status.dataset.kind = kind;
    }
  }

  // Returns a function that finds in the replacement of a section the element that has the focus: by its
  // identifier; otherwise, below the nearest element that has one, a link by its target, since rows move, and
  // others by their place.
  function focusOf(section) {
    const element = document.activeElement;
    if (!section.contains(element)) return () => null;
    const within = (made, id) => (made.id === id ? made : made.querySelector(`#${CSS.escape(id)}`));
    if (element.id) return (made) => within(made, element.id);
    const near = element.closest("[id]");
    const target = element.getAttribute("href");
    const kind = element.localName + (target === null ? "" : `[href="${CSS.escape(target)}"]`);
    const place = [...near.querySelectorAll(kind)].indexOf(element);
    return (made) => within(made, near.id)?.querySelectorAll(kind)[place];
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
      const focused = focusOf(old);
      old.replaceWith(made);
      for (const [id, left, top] of scrolled) {
        const same = made.querySelector(`#${CSS.escape(id)}`);
        if (same) { same.scrollLeft = left; same.scrollTop = top; }
      }
      const again = focused(made);
      if (again) again.focus({ preventScroll: true });
    });
    for (const gone of known.values()) gone.remove();
  }

  // A click on a section that is replaced between press and release would do nothing.
  let pressed = -Infinity;
  document.addEventListener("pointerdown", () => { pressed = performance.now(); }, true);
  for (const end of ["pointerup", "pointercancel", "contextmenu"]) {
    document.addEventListener(end, () => { pressed = -Infinity; }, true);
  }
  const isPressed = () => performance.now() - pressed < LONGEST_PAUSE_MS;

  let tag = "";
  let waiting = 0;
  let busy = false;
  // What to say once the page has been brought up to date.
  let state = ["", ""];

  async function refresh() {
    waiting = 0;
    if (busy || isPressed()) { soon(); return; }
    busy = true;
    try {
      // Asks for a page: without a session the answer is the login page.
      const headers = { Accept: "text/html" };
      if (tag) headers["If-None-Match"] = tag;
      const signal = AbortSignal.timeout(ANSWER_MS);
      const answer = await fetch(live.dataset.live, { headers, signal, cache: "no-store" });
      if (answer.redirected) { location.reload(); return; }
      if (!answer.ok && answer.status !== 304) throw new Error(answer.statusText);
      if (answer.ok) {
        const text = await answer.text();
        if (isPressed()) { soon(); return; }
        show(text);
        tag = answer.headers.get("ETag") || "";
      }
      say(...state);
      later();
    } catch {
      say(LOST, "lost");
      if (!waiting) waiting = setTimeout(refresh, LONGEST_PAUSE_MS);
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

  // Takes one of the places for streams, which all pages of the browser share. Calls `use` with a
  // function that gives it back, or with null if there is none.
  function takePlace(use, number = 1) {
    // Missing only without TLS, beyond this machine.
    if (!navigator.locks) { use(() => {}); return; }
    navigator.locks.request(`fstune-stream-${number}`, { ifAvailable: true }, (lock) => {
      if (lock) return new Promise((giveBack) => use(giveBack));
      if (number < STREAMS) takePlace(use, number + 1);
      else use(null);
      return null;
    }).catch(() => use(() => {})); // Refused where the user blocks site data.
  }

  function watch(address) {
    let pause = 500;
    let newest = 0;
    let source = null;
    let leave = null;
    let asking = false;
    let again = 0;
    let over = false;
    const disconnect = () => {
      if (source) source.close();
      if (leave) leave();
      source = leave = null;
    };
    const become = (text, kind) => { state = [text, kind]; };
    const end = () => {
      over = true;
      disconnect();
      become("ended", "over");
      soon();
    };
    const connectIn = (time) => { clearTimeout(again); again = setTimeout(connect, time); };
    const connect = () => {
      if (over || source || asking || document.hidden) return;
      asking = true;
      takePlace((giveBack) => {
        asking = false;
        leave = giveBack;
        if (document.hidden) { disconnect(); return; }
        if (leave) { open(); return; }
        // Without a stream, the page itself tells.
        if (live.querySelector("[data-over]")) { end(); return; }
        become("live", "live");
        soon();
        connectIn(WITHOUT_STREAM_MS);
      });
    };
    const open = () => {
      const url = new URL(address, location.href);
      if (newest) url.searchParams.set("after", String(newest));
      source = new EventSource(url);
      source.addEventListener("open", () => { pause = 500; become("live", "live"); soon(); });
      source.addEventListener("campaign", (event) => { newest = Number(event.lastEventId); soon(); });
      source.addEventListener("presence", soon);
      source.addEventListener("over", end);
      source.addEventListener("error", () => {
        become(LOST, "lost");
        say(...state);
        if (!source || source.readyState !== EventSource.CLOSED) return;
        // A browser stops retrying if the response was not an event stream; we do not. The session
        // may have ended: the page itself tells.
        disconnect();
        soon();
        connectIn(pause);
        pause = Math.min(2 * pause, LONGEST_PAUSE_MS);
      });
    };
    // Pages that nobody sees keep no connection.
    document.addEventListener("visibilitychange", () => {
      if (over) return;
      disconnect();
      become("connecting", "");
      say(...state);
      if (document.hidden) return;
      connect();
      soon();
    });
    connect();
  }

  function poll(every) {
    setInterval(() => { if (!document.hidden) refresh(); }, every);
  }

  if (live) later();
  if (live && live.dataset.events) watch(live.dataset.events);
  if (live && live.dataset.every) poll(1000 * Number(live.dataset.every));

  for (const button of document.querySelectorAll("[data-copy]")) button.hidden = false;
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
