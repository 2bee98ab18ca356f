// A page with one picture.
"use strict";
window.gradtape.mount(document.getElementById("picture"), JSON.parse(document.getElementById("data").textContent), true);
