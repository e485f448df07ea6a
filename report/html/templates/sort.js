for(const t of document.querySelectorAll('table.sort'))t.querySelectorAll('th').forEach((h,i)=>{
h.setAttribute('aria-sort','none');h.tabIndex=0;
const go=()=>{const up=h.getAttribute('aria-sort')!=='descending';
t.querySelectorAll('th').forEach(o=>o.setAttribute('aria-sort','none'));
h.setAttribute('aria-sort',up?'descending':'ascending');
const v=r=>{const s=r.cells[i]?r.cells[i].textContent:'',n=parseFloat(s.replace(/,/g,'').replace(/[^0-9.eE+-]*/,''));return[s,n]};
[...t.tBodies[0].rows].sort((a,b)=>{const[x,m]=v(a),[y,n]=v(b);
if((x==='')!==(y===''))return x===''?1:-1;
const c=isNaN(m)||isNaN(n)?x.localeCompare(y):m-n;return up?-c:c}).forEach(r=>t.tBodies[0].append(r))};
h.onclick=go;h.onkeydown=e=>{if(e.key==='Enter'||e.key===' '){e.preventDefault();go()}}})
