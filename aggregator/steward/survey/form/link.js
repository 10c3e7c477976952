// The personal link of a page that counts only answers with one: read from its address, or asked for.

/** What is said of a link that lets nothing count, by the leader's word. */
const OF_LINKS = { permit_spent: 'link_used', permit_unknown: 'link_unknown', permit_of_another_window: 'link_window' };

// Whoever opens another's link in this tab changes only what is behind the #.
addEventListener('hashchange', () => location.reload());

/** The link of whoever reads; asks for its code where the address has none. */
async function personalLink(form, put) {
  const asks = document.getElementById('link');
  const fault = document.getElementById('link-fault'), field = document.getElementById('code');
  try {
    if (location.hash.length > 1) return await Link.read(location.hash);
  } catch (error) {
    if (error instanceof Unsupported) throw error;
    fault.hidden = false;
  }
  [form.hidden, asks.hidden] = [true, false];
  put(document.getElementById('status'), null);
  return new Promise((done) => {
    asks.addEventListener('submit', async (event) => {
      event.preventDefault();
      try {
        const link = await Link.read(field.value);
        // So that the page can be loaded again, and kept for the next window.
        history.replaceState(null, '', `#p=${field.value.split('#p=').at(-1).replaceAll(/\W/g, '')}`);
        [form.hidden, asks.hidden, field.value] = [false, true, ''];
        done(link);
      } catch {
        fault.hidden = false;
        field.setAttribute('aria-invalid', 'true');
        field.focus();
      }
    });
  });
}
