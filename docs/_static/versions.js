// Fills the menu of versions from versions.js beside the folders of all versions, which `make site` writes; works from disk.
document.addEventListener("DOMContentLoaded", () => {
  for (const menu of document.querySelectorAll(".version-menu")) {
    const root = menu.dataset.root + "../";
    const script = document.createElement("script");
    script.src = root + "versions.js";
    script.onload = () => {
      const list = menu.querySelector("ul");
      list.replaceChildren(...window.GRADTAPE_VERSIONS.map((name) => {
        const item = document.createElement("li");
        const link = document.createElement("a");
        link.href = root + name + "/index.html";
        link.textContent = name + (name === menu.dataset.version ? " (this one)" : "");
        item.append(link);
        return item;
      }));
    };
    document.head.append(script);
  }
});
